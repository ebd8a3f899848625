/**
 * The name that was probably meant: one that differs in case and underscores only, that contains the
 * given one or is contained in it, or that differs in at most a third of its letters. Undefined if
 * there is none.
 */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  const wanted = plain(name);
  let nearest: string | undefined;
  let least = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of names) {
    const edits = distance(wanted, plain(candidate));
    if (edits >= least) continue;
    least = edits;
    nearest = candidate;
  }
  return nearest;
}

function plain(name: string): string {
  return name.replaceAll(/[_-]/g, '').toLowerCase();
}

function distance(a: string, b: string): number {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  const isContained = short.length >= 3 && short !== long && long.includes(short);
  return isContained ? 1 : editDistance(a, b);
}

/** The least number of letters to insert, delete or replace to get from `a` to `b` (Levenshtein 1966). */
function editDistance(a: string, b: string): number {
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const line = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      line.push(Math.min(replaced, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1));
    }
    above = line;
  }
  return above[b.length] ?? 0;
}
