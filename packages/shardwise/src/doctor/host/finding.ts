/** Green: all is well. Yellow: it works, but slower than it could, or soon no longer. Red: training fails here. */
export const levels = ['green', 'yellow', 'red'] as const;
export type Level = (typeof levels)[number];

/** What one probe found. */
export interface Finding {
  /** What was looked at: `huge pages`. */
  readonly name: string;
  readonly level: Level;
  readonly found: string;
  /** What to do about it. Absent if nothing is to be done. */
  readonly todo?: string;
  /** The figures behind it, for programs. */
  readonly figures?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
}

/** Returns the worst level of some findings. */
export function worstLevel(findings: readonly { readonly level: Level }[]): Level {
  const worst = Math.max(0, ...findings.map(({ level }) => levels.indexOf(level)));
  return levels[worst] ?? 'green';
}
