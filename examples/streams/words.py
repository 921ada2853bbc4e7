"""Counts the words of the topic `lines`."""

from odradek.streams import App

app = App("word-count", "localhost:9092")

counts = (
    app.stream("lines", value=str)
    .flat_map_values(lambda line: line.lower().split())
    .group_by(lambda _, word: word)
    .count(store="counts")
)
counts.to_stream().map_values(str, value=str).to("word-counts")

if __name__ == "__main__":
    app.run()
