-- Asks `ratelimit` about each request, at /v1/auth (`application.auth`). HAProxy 2.6 and later. haproxy.cfg beside this file
-- uses it, and says by variables of the environment where the daemon is (RATELIMIT_URL), whether requests pass while it can't be
-- asked (RATELIMIT_FAILS: `open` or `closed`), and which headers templates name (RATELIMIT_HEADERS, such as `user-agent`). Nothing
-- else that a client writes reaches the daemon.
--
-- The action sets these variables of the transaction:
--   ratelimit_denied        "true" or "false"
--   ratelimit_failed        "true" if the daemon could not be asked; ratelimit_denied is "true" then if it fails closed
--   ratelimit_limit, ratelimit_remaining, ratelimit_retry_after    what the daemon says, if it does

local url = (os.getenv("RATELIMIT_URL") or "http://127.0.0.1:8080") .. "/v1/auth"
local fails_closed = os.getenv("RATELIMIT_FAILS") == "closed"
local passed_on = os.getenv("RATELIMIT_HEADERS") or ""

-- In milliseconds: as long as the daemon may take.
local TIMEOUT = 250

local SHOWN = {
    ratelimit_limit = "x-ratelimit-limit",
    ratelimit_remaining = "x-ratelimit-remaining",
    ratelimit_retry_after = "retry-after",
}

-- What a request is, in the headers that the daemon reads.
local function question(txn)
    local headers = {
        ["x-forwarded-for"] = { txn.sf:src() },
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-host"] = { txn.sf:req_fhdr("host") },
    }
    local all = txn.http:req_get_headers()
    for name in passed_on:gmatch("[^%s,]+") do
        local values = {}
        -- From 0 on, in the order in which they were sent.
        for index, value in pairs(all[name] or {}) do
            values[index + 1] = value
        end
        if #values > 0 then
            headers[name] = values
        end
    end
    return headers
end

local function ask(txn)
    -- HAProxy's client tries again for seconds where nobody listens; the health check knows better.
    if core.backends["ratelimit"] and tonumber(txn.sf:nbsrv("ratelimit")) == 0 then
        return nil
    end
    local answer = core.httpclient():get({ url = url, headers = question(txn), timeout = TIMEOUT })
    -- 0 if nobody answers. 431: the headers are too large to be judged, so that the request is denied.
    if not answer or not answer.status or answer.status == 0 or answer.status >= 500 then
        return nil
    end
    return answer
end

core.register_action("ratelimit", { "http-req" }, function(txn)
    local asked, answer = pcall(ask, txn)
    local failed = not asked or not answer
    local denied = fails_closed
    if not failed then
        denied = answer.status >= 300
        for variable, name in pairs(SHOWN) do
            local values = answer.headers and answer.headers[name]
            if values then
                txn:set_var("txn." .. variable, values[0])
            end
        end
    end
    txn:set_var("txn.ratelimit_failed", tostring(failed))
    txn:set_var("txn.ratelimit_denied", tostring(denied))
end, 0)
