import type { MemoryUse } from '@shardwise/strategies';
import { z } from 'zod';
import { MAX_METRICS, METRIC_NAME, type NamedMetrics } from './named-metrics.ts';
import { type RankProfile, rankProfile } from './rank-profile.ts';

/** The report of one rank about one step. */
export interface StepReport {
  readonly kind: 'step';
  readonly rank: number;
  readonly step: number;
  readonly totalSteps?: number | undefined;
  readonly loss?: number | undefined;
  readonly validationLoss?: number | undefined;
  readonly learningRate?: number | undefined;
  /** Other figures, under names that the script chooses. */
  readonly metrics?: NamedMetrics | undefined;
  /** The number of tokens of this rank alone. */
  readonly tokens?: number | undefined;
  /** The number of samples of this rank alone. */
  readonly samples?: number | undefined;
  /** In milliseconds since the epoch, like all points in time in this file. */
  readonly endMs: number;
  /** The time since the previous report of the rank. The following fields say what it was spent on. */
  readonly stepMs: number;
  readonly computeMs: number;
  readonly communicationMs: number;
  readonly dataMs: number;
  /** The time for collecting graphs, planning and compiling. */
  readonly graphMs: number;
  /** Bytes in the rank's arena; absent if the device does not count them. */
  readonly memoryBytes?: number | undefined;
  /** The part of it that the model and its optimizer keep, if the training loop reports it. */
  readonly memory?: MemoryUse | undefined;
  /**
   * The bytes of messages to other processes since the previous report, also to parameter servers, without the frames
   * around them. Absent if the ranks share memory and there are no servers.
   */
  readonly sentBytes?: number | undefined;
  readonly receivedBytes?: number | undefined;
}

/** What one rank did at which time in one step. */
export interface Timeline {
  readonly kind: 'timeline';
  readonly rank: number;
  readonly step: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly events: readonly TimelineEntry[];
}

export interface TimelineEntry {
  readonly name: string;
  readonly category: 'compute' | 'collective' | 'transfer' | 'data' | 'graph' | 'stage';
  readonly startMs: number;
  readonly durationMs: number;
  readonly detail?: string | undefined;
  /** What a collective or a transfer has moved. */
  readonly bytes?: number | undefined;
  /** The axis of the ranks of a collective, and their number. */
  readonly axis?: string | undefined;
  readonly ranks?: number | undefined;
}

/** A value that a line of the report's head may show. */
export type Fact = string | number | boolean;

/** What the report's head shows of the model and the run. */
interface FactsMessage {
  readonly kind: 'facts';
  readonly rank: number;
  readonly facts: Readonly<Record<string, Fact>>;
}

export interface CheckpointMessage {
  readonly kind: 'checkpoint';
  readonly rank: number;
  readonly step: number;
  readonly directory: string;
}

export type RankMessage = StepReport | Timeline | FactsMessage | CheckpointMessage | RankProfile;

/** A host of a run. */
export interface RunHost {
  readonly name: string;
  readonly ranks: number;
}

/** The ranks start, or start again. */
export interface GenerationMessage {
  readonly kind: 'generation';
  readonly epoch: number;
  readonly worldSize: number;
  /** How the ranks reach each other, and why. */
  readonly transport: string;
  /** The hosts in the order of their ranks, with how many each has. */
  readonly hosts: readonly RunHost[];
  /** Why the ranks start again. Absent at the first start. */
  readonly reason?: string | undefined;
  /** The checkpoint from which the ranks continue. */
  readonly resumeDirectory?: string | undefined;
}

/** The ranks go on with fewer or more ranks, in the same processes. */
export interface MembershipMessage {
  readonly kind: 'membership';
  readonly worldSize: number;
  /** The number of updates of the state that they go on with. */
  readonly step: number;
  readonly reason: string;
}

/** A message of the launcher itself about a run. */
type LauncherMessage =
  | MembershipMessage
  | { readonly kind: 'process-memory'; readonly bytes: number }
  | { readonly kind: 'stopping' }
  | GenerationMessage
  | { readonly kind: 'exit'; readonly rank: number; readonly code: number };

export type RunMessage = RankMessage | LauncherMessage;

const rank = z.int().nonnegative();
const milliseconds = z.number().nonnegative();
/** A loss may have diverged, so figures need not be finite. */
const figure = z.union([z.number(), z.nan(), z.literal(Infinity), z.literal(-Infinity)]);
const metric = figure.optional();
const metrics = z
  .record(z.string().regex(METRIC_NAME), figure)
  .refine((value) => Object.keys(value).length <= MAX_METRICS);

const bytes = z.number().nonnegative();

const memoryUse = z.object({
  parameterBytes: bytes,
  gradientBytes: bytes,
  optimizerBytes: bytes,
  bufferBytes: bytes,
  hostBytes: bytes,
  otherBytes: bytes.nullable(),
  bytesInUse: bytes.nullable(),
  peakBytes: bytes.nullable(),
}) satisfies z.ZodType<MemoryUse>;

const rankMessage = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('step'),
    rank,
    step: z.int().nonnegative(),
    totalSteps: z.int().positive().optional(),
    loss: metric,
    validationLoss: metric,
    learningRate: metric,
    metrics: metrics.optional(),
    tokens: z.number().nonnegative().optional(),
    samples: z.number().nonnegative().optional(),
    endMs: z.number(),
    stepMs: milliseconds,
    computeMs: milliseconds,
    communicationMs: milliseconds,
    dataMs: milliseconds,
    graphMs: milliseconds,
    memoryBytes: z.number().nonnegative().optional(),
    memory: memoryUse.optional(),
    sentBytes: bytes.optional(),
    receivedBytes: bytes.optional(),
  }),
  z.object({
    kind: z.literal('timeline'),
    rank,
    step: z.int().nonnegative(),
    startMs: z.number(),
    endMs: z.number(),
    events: z.array(
      z.object({
        name: z.string(),
        category: z.enum(['compute', 'collective', 'transfer', 'data', 'graph', 'stage']),
        startMs: z.number(),
        durationMs: milliseconds,
        detail: z.string().optional(),
        bytes: bytes.optional(),
        axis: z.string().max(100).optional(),
        ranks: z.int().min(1).max(1e6).optional(),
      }),
    ),
  }),
  z.object({
    kind: z.literal('facts'),
    rank,
    facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  }),
  z.object({
    kind: z.literal('checkpoint'),
    rank,
    step: z.int().nonnegative(),
    directory: z.string(),
  }),
]);
const parsedMessage = z.union([rankMessage, rankProfile]);

/** Parses a message. Returns undefined for anything that no rank of this version sends. */
export function parseRankMessage(value: unknown): RankMessage | undefined {
  const parsed = parsedMessage.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}
