import { type Phase, phases } from '@shardwise/core/extend';
import { z } from 'zod';

/** What an operation did in a module and a phase, in all steps of a profile. */
export interface ProfileRow {
  /** The path of the innermost module, as `GPT.blocks.0.attention`. '' if it was called outside of modules. */
  readonly module: string;
  /** The operation, as `matmul`. */
  readonly op: string;
  readonly phase: Phase;
  /** How often it was computed. */
  readonly count: number;
  readonly ms: number;
  /** The floating-point operations of products, with two for each product of two elements. */
  readonly flops: number;
  /** The bytes that it has to read and write at least. */
  readonly bytes: number;
  /** The least time at the device's peak, at the bandwidth of its memory, and of both. 0 if these are not known. */
  readonly peakMs: number;
  readonly memoryMs: number;
  readonly roofMs: number;
}

/** What a rank waited for, in all steps of a profile. */
export interface ProfileWait {
  /** The collective or transfer, as `allReduce`. */
  readonly op: string;
  readonly module: string;
  readonly phase: Phase;
  readonly count: number;
  readonly ms: number;
  readonly bytes: number;
}

/** What a device can do at most. Undefined where it is not known. */
export interface Roofline {
  /** Floating-point operations per second of f32, and of 16 bits. */
  readonly f32?: number | undefined;
  readonly half?: number | undefined;
  readonly bytesPerSecond?: number | undefined;
}

/** How many threads of a host wanted to run over the last minute, and how many can. */
export interface HostLoad {
  readonly threads: number;
  readonly cores: number;
}

/** Where the time of some steps of a rank went. Times are milliseconds of all steps together. */
export interface RankProfile {
  readonly kind: 'profile';
  readonly rank: number;
  /** Which profile of the run it is, from 0. */
  readonly cycle: number;
  /** The first and the last step, and how many there are. */
  readonly from: number;
  readonly to: number;
  readonly steps: number;
  readonly stepMs: number;
  /** The time of what `rows` list, and the part of it in which products were computed. */
  readonly computeMs: number;
  readonly productsMs: number;
  /** The time inside of programs and between their parts. */
  readonly betweenMs: number;
  readonly waitMs: number;
  readonly dataMs: number;
  /** The time for collecting graphs and finding plans, and for making plans and compiling. */
  readonly graphMs: number;
  readonly compileMs: number;
  /** The rest: what the script did on the thread of the rank, and what it waited for. */
  readonly hostMs: number;
  /** How many parts of programs were computed, and those among them that took less than 10 µs each. */
  readonly parts: number;
  readonly tinyParts: number;
  readonly tinyMs: number;
  readonly roofline: Roofline;
  /** How the times of kernels were taken, if not between kernels: see `Backend.timing`. */
  readonly timing?: 'device' | 'encoding' | undefined;
  /** Absent if the system does not say it. */
  readonly load?: HostLoad | undefined;
  readonly rows: readonly ProfileRow[];
  readonly waits: readonly ProfileWait[];
}

/** A profile that prints as tables. */
export interface StepProfile extends RankProfile {
  /** The tables of what to do first, operations, modules and waits. */
  toString(): string;
}

const amount = z.number().nonnegative();
const count = z.int().nonnegative();
const name = z.string().max(1000);
const phase = z.enum(phases);
const peak = z.number().positive().optional();

export const rankProfile: z.ZodType<RankProfile> = z.object({
  kind: z.literal('profile'),
  rank: count,
  cycle: count,
  from: count,
  to: count,
  steps: z.int().positive(),
  stepMs: amount,
  computeMs: amount,
  productsMs: amount,
  betweenMs: amount,
  waitMs: amount,
  dataMs: amount,
  graphMs: amount,
  compileMs: amount,
  hostMs: amount,
  parts: count,
  tinyParts: count,
  tinyMs: amount,
  roofline: z.object({ f32: peak, half: peak, bytesPerSecond: peak }),
  timing: z.enum(['device', 'encoding']).optional(),
  load: z.object({ threads: amount, cores: z.int().positive() }).optional(),
  rows: z
    .array(
      z.object({
        module: name,
        op: name,
        phase,
        count,
        ms: amount,
        flops: amount,
        bytes: amount,
        peakMs: amount,
        memoryMs: amount,
        roofMs: amount,
      }),
    )
    .max(10_000),
  waits: z
    .array(z.object({ op: name, module: name, phase, count, ms: amount, bytes: amount }))
    .max(10_000),
});
