//! Completions for shells, and manual pages, from the same description of the command line that is parsed by.

use crate::args::{Args, ByShell, Completions, Man};
use crate::output;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Prints the script.
pub(crate) fn completions(args: &Completions) -> anyhow::Result<()> {
    let shell = match args.shell {
        ByShell::Bash => Shell::Bash,
        ByShell::Zsh => Shell::Zsh,
        ByShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "qjam", &mut text);
    output::raw(&text);
    Ok(())
}

/// Prints the page of the command, or writes those of all commands.
pub(crate) fn man(args: &Man) -> anyhow::Result<()> {
    // Paragraphs are broken by whoever shows them.
    let command = Args::command().term_width(0);
    match &args.out {
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(command).render(&mut text)?;
            output::raw(&text);
        }
        Some(folder) => {
            let cannot = || format!("--out {} cannot be written", folder.display());
            std::fs::create_dir_all(folder).with_context(cannot)?;
            clap_mangen::generate_to(command, folder).with_context(cannot)?;
            output::line(format!("the pages are in {}", folder.display()));
        }
    }
    std::io::stdout().flush()?;
    Ok(())
}
