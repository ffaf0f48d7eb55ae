//! Scripts that do, or do not, get to the call of the bootstrap.

use crate::userdata::UserData;
use crate::{BootstrapInput, Family, validate};

const BASH: &str = "/etc/eks/bootstrap.sh shop --apiserver-endpoint https://a.example --b64-cluster-ca \
                    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";
const POWERSHELL: &str = "& \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\" -EKSClusterName shop \
                          -APIServerEndpoint https://a.example -Base64ClusterCA \
                          LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

/// Returns the findings on a script in which `CALL` stands for the call.
fn findings(script: &str, family: Family) -> Vec<String> {
    let text = if family == Family::Al2 {
        format!("#!/bin/bash\n{}\n", script.replace("CALL", BASH))
    } else {
        format!("<powershell>\n{}\n</powershell>\n", script.replace("CALL", POWERSHELL))
    };
    let report = validate(&BootstrapInput {
        user_data: Some(UserData::read(text.as_bytes(), "user-data")),
        family: Some(family),
        ..BootstrapInput::default()
    });
    let shown = report.findings.iter().map(|it| {
        let line = it.evidence.as_ref().and_then(|evidence| evidence.place.line).unwrap_or_default();
        format!("{} {} {line}: {}", it.severity, it.verdict.code, it.message)
    });
    shown.collect()
}

#[test]
fn shell_scripts_that_get_to_the_call() {
    for script in [
        "set -o xtrace\nCALL",
        "set -euo pipefail\nexec > >(tee /var/log/user-data.log | logger -t user-data) 2>&1\nCALL",
        "exec 3>&1 >>/var/log/x 2>&1\nexec {fd}>/tmp/x\nCALL",
        "fail() {\n  echo \"it's over: $1\" >&2\n  exit 1\n}\n[ -x /etc/eks/bootstrap.sh ] || fail 'none'\nCALL",
        "function stop\n{\n  exit 1\n}\nfunction go() { CALL; }\ngo\nexit 0",
        "if [[ \"$(uname -m)\" == aarch64 ]]; then exit 1; elif true; then :; else exit 2\nfi\nCALL",
        "if true; then\n  CALL\nfi",
        "if a; then if b; then c; fi fi; { { d; } }\nCALL",
        "cat <<'EOF' > /opt/x.sh\nif true; then\nexit 0\n)\nit's \"\nEOF\nCALL",
        "cat <<-A >/x; cat <<\"B\" >/y\n\texit 0\n\tA\n) fi\nB\nCALL",
        "CALL\nexit 0",
        "CALL || exit 1\nif then",
        "yum install -y jq || exit 1\nyum update ||\n  exit 1\nmount /dev/xvdb /data \\\n  || exit 1\nCALL",
        "trap 'rm -f /tmp/x; exit 1' EXIT INT\nCALL",
        "trap '/etc/eks/bootstrap.sh shop' EXIT\nexit 0\nCALL",
        "case \"$(uname -m)\" in\n  (x86_64|amd64) A=1 ;;\n  arm*) exit 1 ;;\n  [[:alpha:]]*) ;;\n  *) B='esac' # don't\nesac\nCALL",
        "x=$(case a in a) echo 'b)';; esac) # it's\ny=$(cat <<EOF\n)\nEOF\n)\nCALL",
        "for x in a b; do echo if then fi done; done\nfor ((i = 0; i < 3; i++)); do exit; done\nfor x; do :; done\nCALL",
        "while read -r line; do\n  echo \"$line\"\ndone < <(ls)\nuntil curl -sf x; do sleep 1; done\nCALL",
        "n=$((1 + (2 * 3))); (( n > 3 )) && exit 1\n[[ $n =~ ^(a|b)[[:space:]]*$ ]] && exit 2\nCALL",
        "A=(a 'b c' # a comment: it's\n  \"$x\")\nA+=(if)\necho ${#A[@]} \"${A[0]:-\"x\"}\" ${x%\\'} $# $'a\\n'\nCALL",
        "echo exit; echo \"exit\nexit 0\n\"; (exit 0); exit 0 & true | exit 0\nCALL",
        "# exit\n: # if {\necho a#b if { \\( 2>/dev/null | cat\nCALL",
        "echo 'a)' if\nCALL",
        "sed '1,/^DATA$/d' \"$0\" > /tmp/x; exit 0\nDATA\nCALL",
        "! true\ntime -p if true; then :; fi\ncurl x &>/dev/null &\nwait\nCALL",
        "jq '.a |= {' <<< \"$x\" > /x && mv /x /y; echo {a,b} } \nCALL",
    ] {
        let found = findings(script, Family::Al2);
        assert!(!found.iter().any(|it| it.contains("UD33")), "{script}\n{found:?}");
    }
}

#[test]
fn shell_scripts_that_do_not_get_to_the_call() {
    for (script, line, message) in [
        ("exit 0\nCALL", 2, "`exit` ends the script before it calls bootstrap.sh"),
        ("set -x\nexit\n\nCALL", 3, "`exit` ends the script before it calls bootstrap.sh"),
        ("true && true; exit $?; true\nCALL", 2, "`exit` ends the script before it calls bootstrap.sh"),
        ("exec systemctl start x >/log 2>&1\nCALL", 2, "`exec` ends the script before it calls bootstrap.sh"),
        ("if true; then\nCALL", 2, "`if` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("while true; do\nCALL", 2, "`while` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("for x in a; do\nCALL", 2, "`for` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("case x in\na) CALL;;", 2, "`case` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("go() {\nCALL\ngo", 2, "`{` is never closed, so the shell never runs the call of bootstrap.sh"),
        (
            "true\necho a )\nCALL",
            3,
            "there is a `)` without what it belongs to, so the shell never runs the call of bootstrap.sh",
        ),
        (
            "true\nfi\nCALL",
            3,
            "there is a `fi` without what it belongs to, so the shell never runs the call of bootstrap.sh",
        ),
        ("echo 'a\nCALL", 2, "`'` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("echo \"a\nCALL\n", 2, "`\"` is never closed, so the shell never runs the call of bootstrap.sh"),
        ("X=$(id\nCALL\n", 2, "`$(` is never closed, so the shell never runs the call of bootstrap.sh"),
    ] {
        let found = findings(script, Family::Al2);
        assert!(found.contains(&format!("error UD33 {line}: {message}")), "{script}\n{found:?}");
    }
    let found = findings("/opt/company/join.sh\nexit 0\nCALL", Family::Al2);
    let message = "`exit` ends the script before it calls bootstrap.sh, unless something that it runs does";
    assert!(found.contains(&format!("warning UD33 3: {message}")), "{found:?}");
}

#[test]
fn powershell_scripts_that_get_to_the_call() {
    for script in [
        "CALL",
        "CALL\nexit 0",
        "if ($x) { exit 1 }\nif ($y) {\n  throw \"no $(Get-Date -Format 'HH:mm') }\"\n}\nCALL",
        "function Stop-It {\n  param([string]$Why)\n  return\n}\nCALL",
        "# exit { ' \"\n<# if (\nexit\n#>\nCALL",
        "$text = @'\nexit\nit's { (\n'@\n$more = @\"\n\"a\" $x {\n\"@\nCALL",
        "$a = 'it''s (' + \"a `\" { \"\" (\" + [char]39\nCALL",
        "$t = @{ exit = 1; b = @('a', 'b') }\nforeach ($k in $t.Keys) { Write-Host \"$($t[$k]) $(if ($k) { \"}\" })\" }\nCALL",
        "Write-Host `\n  exit\nGet-Service |\n  Where-Object { $_.Name -eq 'x' } # it's\nCALL",
        "try { Get-Item x } catch { exit 1 } finally { }\n${env:ProgramFiles(x86)}\nexit-pssession\nCALL",
        "Write-Host a#b\nCALL",
    ] {
        let found = findings(script, Family::Windows2022);
        assert!(!found.iter().any(|it| it.contains("WN12")), "{script}\n{found:?}");
    }
}

#[test]
fn powershell_scripts_that_do_not_get_to_the_call() {
    let ends = |name: &str| format!("`{name}` ends the script before it calls Start-EKSBootstrap.ps1");
    let unclosed = |token: &str| format!("`{token}` is never closed, so PowerShell runs nothing of the script");
    for (script, line, message) in [
        ("exit 0\nCALL", 2, ends("exit")),
        ("Get-Service\nEXIT\nCALL", 3, ends("exit")),
        ("$a = 1; return\nCALL", 2, ends("return")),
        ("throw 'no'\nCALL", 2, ends("throw")),
        ("if ($true) {\nCALL", 2, unclosed("{")),
        ("if ($true {\n}\nCALL", 2, unclosed("(")),
        ("$a = @(\n'b'\nCALL", 2, unclosed("(")),
        ("Write-Host 'a\nCALL", 2, unclosed("'")),
        ("CALL\n<# a", 3, unclosed("<#")),
        (
            "}\nCALL",
            2,
            "there is a `}` without what it belongs to, so PowerShell runs nothing of the script".to_owned(),
        ),
    ] {
        let found = findings(script, Family::Windows2022);
        assert!(found.contains(&format!("error WN12 {line}: {message}")), "{script}\n{found:?}");
    }
    let found = findings("& C:\\Company\\Join.ps1\nexit 0\nCALL", Family::Windows2022);
    let message = format!("{}, unless something that it runs does", ends("exit"));
    assert!(found.contains(&format!("warning WN12 3: {message}")), "{found:?}");
}
