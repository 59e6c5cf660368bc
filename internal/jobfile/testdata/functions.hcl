# Functions of job files.
job "functions" {
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        file       = trimspace(file("files/motd.txt"))
        exists     = [fileexists("files/motd.txt"), fileexists("files/none")]
        b64        = base64encode("abc")
        b64file    = filebase64("files/motd.txt")
        unb64      = base64decode("YWJj")
        json       = jsonencode({ a = [1, true, null] })
        unjson     = jsondecode("{\"a\":[1]}").a
        formatted  = format("%s-%02d", "x", 7)
        joined     = join(",", ["a", "b"])
        cases      = [upper("a"), lower("B"), title("c d")]
        merged     = merge({ a = 1 }, { a = 2 })
        concatd    = concat(["a"], ["b"])
        lengths    = [length("abc"), length([1, 2]), length({ a = 1 })]
        replaced   = replace("a.b", ".", "_")
        regexed    = regex_replace("a1b2", "[0-9]", "#")
        coalesced  = coalesce(null, "x")
        looked     = lookup({ a = "1" }, "b", "none")
        trimmed    = [trimprefix("xa", "x"), trimsuffix("ax", "x"), trim("xax", "x"), chomp("a\n")]
        splitted   = split(",", "a,b")
        flat       = flatten([["a"], ["b"]])
        uniq       = distinct(["a", "a"])
        has        = contains(["a"], "a")
        at         = [element(["a", "b"], 3), index(["a", "b"], "b")]
        maps       = [keys({ b = 1, a = 2 }), values({ b = 1, a = 2 }), zipmap(["a"], ["b"])]
        sorted     = sort(["b", "a"])
        numbers    = [max(1, 2), min(1, 2), abs(-1), ceil(1.2), floor(1.8), parseint("ff", 16)]
        ranged     = range(3)
        hashes     = [md5("a"), sha1("a"), sha256("a")]
        url        = urlencode("a b/c")
        paths      = [basename("/a/b"), dirname("/a/b")]
        tried      = [try(jsondecode("{").a, "fallback"), can(jsondecode("{"))]
        converted  = convert("3", number)
        indented   = indent(2, "a\nb")
        characters = [strlen("äb"), strrev("ab"), substr("abc", 0, 2)]
      }
    }
  }
}
