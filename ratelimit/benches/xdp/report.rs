//! What is printed: a row of figures for each configuration, its ladder, and what is executed by stage.

use std::collections::BTreeSet;

use crate::measure::{Effort, Figure, Figures};

pub fn print_method(effort: Effort) {
    println!(
        "nanoseconds of processor time above a program that reads the clock, without the draws of random sources\n\
         p10 of {} rounds, all of a row by turns on processor {}, mean of {} loads; +- half of what loads differ by\n\
         64 bytes, UDP over IPv4 if nothing else is said; table of 1,048,576 buckets; floor: benches/floor, by clang\n\
         insns: BPF instructions that a packet executes\n",
        effort.rounds, effort.processor, effort.loads
    );
    println!(
        "{:<32}{:>8}{:>6}{:>8}{:>7}{:>8}{:>7}   the floor's rungs",
        "", "product", "+-", "floor", "ratio", "insns", "floor"
    );
}

pub fn print_row(figures: &Figures) {
    let floor = figures.floor();
    let ratio = floor.map_or("-".to_owned(), |floor| format!("{:.2}", figures.product.above / floor.above));
    let nanos = floor.map_or("-".to_owned(), |floor| format!("{:.0}", floor.above));
    let rungs: Vec<String> =
        figures.rungs.iter().map(|rung| format!("{} {:.0}", rung.name, rung.above)).collect();
    println!(
        "{:<32}{:>8.0}{:>6.1}{:>8}{:>7}{:>8}{:>7}   {}",
        figures.row.name,
        figures.product.above,
        figures.product.spread,
        nanos,
        ratio,
        executed(&figures.product),
        floor.map_or("-".to_owned(), executed),
        rungs.join(", ")
    );
    if let Some(beside) = &figures.beside {
        println!(
            "  beside: {:<22}{:>8.0}{:>6.1}{:>30}   times {:.2}, {:+.0} ns",
            beside.name,
            beside.above,
            beside.spread,
            executed(beside),
            figures.product.above / beside.above,
            figures.product.above - beside.above
        );
    }
}

fn executed(figure: &Figure) -> String {
    match &figure.executed {
        Some(executed) => executed.all().to_string(),
        None => "?".to_owned(),
    }
}

/// Where the first row's instructions are, in the product and in the floor.
pub fn print_stages(figures: &Figures) {
    let (Some(product), Some(floor)) =
        (&figures.product.executed, figures.floor().and_then(|floor| floor.executed.as_ref()))
    else {
        println!("\nWhat is executed can't be counted: {}", figures.product.why_not);
        return;
    };
    println!(
        "\nBPF instructions executed by stage (the file that they were written in): {}",
        figures.row.name
    );
    let names: BTreeSet<&String> = product.stages.keys().chain(floor.stages.keys()).collect();
    for name in names {
        let count = |stages: &std::collections::BTreeMap<String, u32>| {
            stages.get(name).map_or("-".to_owned(), ToString::to_string)
        };
        println!("  {name:<24}{:>8}{:>8}", count(&product.stages), count(&floor.stages));
    }
}
