import { z } from 'zod';

/** What one rank says of itself. */
export interface RankFacts {
  readonly host: string;
  readonly node: string;
  readonly shardwise: string;
  readonly platform: string;
  readonly device: string;
}

/** What two ranks measured of the link between them. */
export interface Link {
  readonly from: number;
  readonly to: number;
  /** Half of the median time of a small message there and back. */
  readonly latencyUs: number;
  /** The best of several large messages, in bytes per second. */
  readonly bytesPerSecond: number;
  /** How far the clock of `to` is ahead of that of `from`. */
  readonly clockAheadMs: number;
}

/** The links between all ranks, each of them once. */
export interface LinkReport {
  readonly ranks: readonly RankFacts[];
  readonly transport: string;
  readonly links: readonly Link[];
}

const MAX_TEXT = 512;
const text = z.string().max(MAX_TEXT);

export const rankFactsSchema: z.ZodType<RankFacts> = z.object({
  host: text,
  node: text,
  shardwise: text,
  platform: text,
  device: text,
});

const rank = z.int().nonnegative();

export const linksSchema: z.ZodType<readonly Link[]> = z.array(
  z.object({
    from: rank,
    to: rank,
    latencyUs: z.number().nonnegative(),
    bytesPerSecond: z.number().nonnegative(),
    clockAheadMs: z.number(),
  }),
);

const reportSchema: z.ZodType<LinkReport> = z.object({
  ranks: z.array(rankFactsSchema),
  transport: text,
  links: linksSchema,
});

/** Parses a report that rank 0 has written. Throws an error of zod for anything else. */
export function parseLinkReport(json: string): LinkReport {
  return reportSchema.parse(JSON.parse(json));
}
