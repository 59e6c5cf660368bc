job "decide" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "wardyn"
      config {
        decide = "{\"kind\":\"decision\",\"decision\":\"allow\",\"host\":\"a.example\",\"port\":443,\"method\":\"CONNECT\"}\n{\"kind\":\"end\"}\n{\"kind\":\"decision\",\"decision\":\"deny\",\"host\":\"b.example\",\"code\":\"policy:default\"}\n"
      }
    }
  }
}
