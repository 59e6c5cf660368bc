job "decide" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        decide = "{\"decision\":\"allow\",\"host\":\"a.example\",\"port\":443,\"method\":\"CONNECT\"}\n{\"kind\":\"end\"}\n{\"decision\":\"deny\",\"host\":\"b.example\",\"rule_source\":\"policy:default\"}\n"
      }
    }
  }
}
