import { z } from 'zod';

/** What a rank says of its training. */
const rankLine = z.object({
  /** The rank begins to train with others, after `step` updates, or has made update `step`. */
  kind: z.enum(['begins', 'step']),
  step: z.number(),
  rank: z.number(),
  worldSize: z.number(),
  pid: z.number(),
  /** Milliseconds since 1970, with fractions. */
  atMs: z.number(),
});
export type RankLine = z.infer<typeof rankLine>;

/** Parses a line of the run's output. Returns undefined for what no rank says. */
export function parseRankLine(line: string): RankLine | undefined {
  const [text] = /\{.*\}$/.exec(line) ?? [];
  if (text === undefined) return undefined;
  try {
    return rankLine.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
