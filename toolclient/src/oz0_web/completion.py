"""Completion scripts for `oz0-web completion SHELL`; a test compares the options in them with the parser's."""

from __future__ import annotations

_BASH = """\
_oz0_web() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""
    case "$before" in
        --output) words="markdown text raw" ;;
        --view) words="full section summary stub lines find" ;;
        --max-chars|--max-bytes|--budget|--query) ;;
        completion) words="bash zsh fish" ;;
        *)
            case "${COMP_WORDS[1]}" in
                fetch) words="--output --max-chars --max-bytes --budget --query --view --fresh --json --help" ;;
                find) words="--budget --max-bytes --json --help" ;;
                grant) words="--json --help" ;;
                completion) words="--help" ;;
                *) words="fetch find grant completion --help --version" ;;
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -F _oz0_web oz0-web
"""

_ZSH = """\
#compdef oz0-web
_oz0_web() {
    local -a commands
    commands=('fetch:read one page' 'find:find a text in a page' 'grant:show what this job may reach'
        'completion:print a completion script')
    _arguments -C '--help[show help]' '--version[show the version]' '1:command:->command' '*::argument:->argument'
    case $state in
        command) _describe command commands ;;
        argument)
            case $words[1] in
                fetch) _arguments '--output[form]:form:(markdown text raw)' '--max-chars[most characters]:number:' \\
                    '--max-bytes[most bytes]:number:' '--budget[most tokens]:number:' \\
                    '--query[heading or lines]:query:' \\
                    '--view[view]:view:(full section summary stub lines find)' '--fresh[ask anew]' \\
                    '--json[one JSON object]' '--help[show help]' '1:URL:' ;;
                find) _arguments '--budget[most tokens]:number:' '--max-bytes[most bytes]:number:' \\
                    '--json[one JSON object]' '--help[show help]' '1:URL:' '2:text:' ;;
                grant) _arguments '--json[one JSON object]' '--help[show help]' ;;
                completion) _arguments '--help[show help]' '1:shell:(bash zsh fish)' ;;
            esac ;;
    esac
}
compdef _oz0_web oz0-web
"""

_FISH = """\
complete -c oz0-web -f
complete -c oz0-web -n __fish_use_subcommand -a fetch -d 'read one page'
complete -c oz0-web -n __fish_use_subcommand -a find -d 'find a text in a page'
complete -c oz0-web -n __fish_use_subcommand -a grant -d 'show what this job may reach'
complete -c oz0-web -n __fish_use_subcommand -a completion -d 'print a completion script'
complete -c oz0-web -n __fish_use_subcommand -l version -d 'show the version'
complete -c oz0-web -l help -d 'show help'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch' -l output -x -a 'markdown text raw' -d form
complete -c oz0-web -n '__fish_seen_subcommand_from fetch' -l max-chars -x -d 'most characters'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch find' -l max-bytes -x -d 'most bytes'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch find' -l budget -x -d 'most tokens'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch' -l query -x -d 'heading, lines or words'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch' -l view -x -a 'full section summary stub lines find' -d view
complete -c oz0-web -n '__fish_seen_subcommand_from fetch' -l fresh -d 'ask the site anew'
complete -c oz0-web -n '__fish_seen_subcommand_from fetch find grant' -l json -d 'one JSON object'
complete -c oz0-web -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
