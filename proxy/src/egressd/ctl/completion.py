"""Completion scripts for bash, zsh and fish (`egressctl --completion bash`): fixed texts, the machine is not asked."""

from __future__ import annotations

VERBS = ("allow", "deny", "remove", "list", "lint")
OPTIONS = ("--for", "--json", "--lists", "--socket", "--help", "--version", "--completion")

_BASH = """\
# egressctl --completion bash > /etc/bash_completion.d/egressctl
_egressctl() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    case "$before" in
        --lists) COMPREPLY=($(compgen -d -- "$word")); return ;;
        --socket) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")); return ;;
        --for) COMPREPLY=($(compgen -W "15m 1h 8h 1d" -- "$word")); return ;;
        tenant) COMPREPLY=($(compgen -W "default" -- "$word")); return ;;
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "%(options)s" -- "$word")); return ;;
    esac
    if [ "${COMP_WORDS[COMP_CWORD-2]}" = tenant ]; then
        COMPREPLY=($(compgen -W "%(verbs)s" -- "$word"))
    elif [[ " ${COMP_WORDS[*]} " != *" tenant "* ]]; then
        COMPREPLY=($(compgen -W "tenant" -- "$word"))
    fi
}
complete -F _egressctl egressctl
"""

_ZSH = """\
#compdef egressctl
# egressctl --completion zsh > "${fpath[1]}/_egressctl"
_arguments \\
    '--for[how long the rule holds]:duration:(15m 1h 8h 1d)' \\
    '--json[answer in JSON]' \\
    '--lists[folder of the list files]:folder:_files -/' \\
    '--socket[admin socket of the daemon]:socket:_files' \\
    '--completion[write a completion script]:shell:(bash zsh fish)' \\
    '--version[show the version]' \\
    '--help[show how to use it]' \\
    '1:what:(tenant)' \\
    '2:name:(default)' \\
    '3:verb:(%(verbs)s)' \\
    '*:rule:'
"""

_FISH = """\
# egressctl --completion fish > ~/.config/fish/completions/egressctl.fish
complete -c egressctl -f
complete -c egressctl -n 'not __fish_seen_subcommand_from tenant' -a tenant
complete -c egressctl -n '__fish_seen_subcommand_from tenant; and not __fish_seen_subcommand_from %(verbs)s' \\
    -a '%(verbs)s'
complete -c egressctl -l for -x -a '15m 1h 8h 1d' -d 'how long the rule holds'
complete -c egressctl -l json -d 'answer in JSON'
complete -c egressctl -l lists -x -a '(__fish_complete_directories)' -d 'folder of the list files'
complete -c egressctl -l socket -r -d 'admin socket of the daemon'
complete -c egressctl -l completion -x -a 'bash zsh fish' -d 'write a completion script'
"""

SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script(shell: str) -> str:
    """Give the completion script of a shell: bash, zsh or fish."""
    return SHELLS[shell] % {"verbs": " ".join(VERBS), "options": " ".join(OPTIONS)}
