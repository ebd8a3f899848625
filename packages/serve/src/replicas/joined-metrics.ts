/** A line of a figure: its name, its labels if it has some, and its value. */
const FIGURE = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/;
const COMMENT = /^# (?:HELP|TYPE) (\S+) /;

/**
 * The figures of several servers as one text for Prometheus. Each figure gets the label `replica`, and the figures of a name
 * stand together, as Prometheus asks.
 */
export function joinedMetrics(texts: ReadonlyMap<number, string>): string {
  const comments = new Map<string, Set<string>>();
  const figures = new Map<string, string[]>();
  for (const [replica, text] of texts) {
    for (const line of text.split('\n')) {
      const [, ofComment] = COMMENT.exec(line) ?? [];
      if (ofComment !== undefined) {
        comments.set(ofComment, (comments.get(ofComment) ?? new Set()).add(line));
        continue;
      }
      const [, name, labels, value] = FIGURE.exec(line) ?? [];
      if (name === undefined) continue;
      const all = [`replica="${replica}"`, ...(labels === undefined ? [] : [labels])].join(',');
      figures.set(name, [...(figures.get(name) ?? []), `${name}{${all}} ${value ?? ''}`]);
    }
  }
  const lines = [...new Set([...comments.keys(), ...figures.keys()])].flatMap((name) => [
    ...(comments.get(name) ?? []),
    ...(figures.get(name) ?? []),
  ]);
  return `${lines.join('\n')}\n`;
}
