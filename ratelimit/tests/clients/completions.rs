//! Completions in the shells that they are for, with command lines as people type them.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use crate::process::program;

/// A directory with the completions of a shell, and with a file to be completed.
fn directory(shell: &str, name: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let printed =
        Command::new(env!("CARGO_BIN_EXE_ratelimit")).args(["completions", shell]).output().unwrap();
    assert!(printed.status.success());
    fs::write(directory.path().join(name), printed.stdout).unwrap();
    fs::write(directory.path().join("edge.yaml"), "network: {}\n").unwrap();
    directory
}

/// What a shell offers.
type Offer = fn(&Path, &str) -> Vec<String>;

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// As `complete -F` calls the function, or with file names where it offers none.
fn bash(directory: &Path, line: &str) -> Vec<String> {
    const SCRIPT: &str = r#"
        . ./ratelimit.bash
        complete -p ratelimit | grep -q -- '-F _ratelimit' || exit 1
        IFS=' ' read -r -a COMP_WORDS <<< "$1x"
        last=$((${#COMP_WORDS[@]} - 1))
        COMP_WORDS[last]=${COMP_WORDS[last]%x}
        COMP_CWORD=$last
        _ratelimit ratelimit "${COMP_WORDS[last]}" "${COMP_WORDS[last - 1]}"
        if [ ${#COMPREPLY[@]} = 0 ]; then compgen -f -- "${COMP_WORDS[last]}"; fi
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    lines(Command::new("bash").args(["--norc", "-c", SCRIPT, "bash", line]).current_dir(directory))
}

fn fish(directory: &Path, line: &str) -> Vec<String> {
    let mut fish = Command::new(program("RATELIMIT_FISH"));
    fish.env("HOME", directory).current_dir(directory);
    let script = format!("source ratelimit.fish; complete -C '{line}'");
    let offered = lines(fish.args(["--no-config", "-c", &script]));
    offered.iter().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

/// A shell at a terminal of its own, which is shown what somebody types, a tabulator included.
fn zsh(directory: &Path, line: &str) -> Vec<String> {
    const SCRIPT: &str = r#"
        zmodload zsh/zpty
        zpty shell zsh -f -i
        read_until() { local all= part; while zpty -r shell part; do all+=$part; [[ $all == *$1* ]] && break; done; print -r -- $all }
        zpty -w shell "PS1=; fpath=($PWD \$fpath); autoload -U compinit; compinit -u -D"
        # What is offered, unless it goes into an array.
        zpty -w shell "compadd() { local -a more; [[ \" \$* \" == *' -'[OAD]' '* ]] || { builtin compadd -O more \"\$@\"; print -rl -- \$more >> $PWD/offered }; builtin compadd \"\$@\" }"
        # By then the line editor has the terminal, which would take the erase character as its own before.
        zpty -w shell "zle-line-init() { print ready:\$((1 + 1)) }; zle -N zle-line-init"
        read_until ready:2 > /dev/null
        zpty -n -w shell "$1"$'\t'
        zpty -n -w shell $'\x15'
        zpty -w shell "print done:\$((1 + 1))"
        read_until done:2 > /dev/null
        zpty -d shell
        [[ -e offered ]] && cat offered
        true
    "#;
    let _ = fs::remove_file(directory.join("offered"));
    lines(
        Command::new(program("RATELIMIT_ZSH")).args(["-f", "-c", SCRIPT, "zsh", line]).current_dir(directory),
    )
}

#[test]
fn shells_complete_what_people_type() {
    let shells: [(&str, &str, Offer); 3] =
        [("bash", "ratelimit.bash", bash), ("fish", "ratelimit.fish", fish), ("zsh", "_ratelimit", zsh)];
    for (shell, name, offer) in shells {
        let directory = directory(shell, name);
        for (line, expected, unexpected) in [
            ("ratelimit un", "unban", "ban"),
            ("ratelimit b", "bucket", "run"),
            ("ratelimit ban --fo", "--for", "--file"),
            ("ratelimit top --by d", "drops", "bytes"),
            ("ratelimit status --output j", "json", "text"),
            ("ratelimit observe ", "on", "bytes"),
            ("ratelimit run --config ed", "edge.yaml", "json"),
            ("ratelimit completions z", "zsh", "bash"),
        ] {
            // clap's completions for fish have no values of arguments without a name.
            if shell == "fish" && ["observe", "completions"].iter().any(|command| line.contains(command)) {
                continue;
            }
            let offered = offer(directory.path(), line);
            let is_offered = |word: &str| offered.iter().any(|offered| offered == word);
            assert!(is_offered(expected) && !is_offered(unexpected), "{shell}: {line}: {offered:?}");
        }
    }
}
