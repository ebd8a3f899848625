import type { LoweredSchedule } from '@shardwise/strategies';

/** The seconds of the parts of a step at one place of a pipeline, for the group of ranks that share its layers. */
export interface PlaceTimes {
  /** By the number of the stage: the forward pass of a microbatch, the gradients of inputs, those of weights. */
  readonly stages: ReadonlyMap<number, StageTimes>;
  /** The reduction of gradients over all replicas, after the last backward pass of the place. */
  readonly reduceSeconds: number;
  readonly updateSeconds: number;
}

export interface StageTimes {
  readonly forward: number;
  readonly inputGradient: number;
  readonly weightGradient: number;
}

/** Where ranks are, and how fast the links between them are. */
export interface Topology {
  readonly devicesPerHost: number;
  /** Whether each device of a host has its own network card (rails), or all share one. */
  readonly cards: 'one for each device' | 'one for each host';
  /** The bytes per second of a device inside of its host, and of a card. */
  readonly insideBytesPerSecond: number;
  readonly cardBytesPerSecond: number;
  readonly insideLatencySeconds: number;
  readonly cardLatencySeconds: number;
  /** Hosts under one switch, and the bytes per second between it and the spine. Absent: without limit. */
  readonly spine?: { readonly hostsPerSwitch: number; readonly bytesPerSecond: number };
}

/** A run as the simulator plays it. */
export interface SimulatedRun {
  /** What each place of the pipeline executes: the schedule that ranks execute, with its messages. */
  readonly schedule: LoweredSchedule;
  /** The pipelines that have the same model. */
  readonly replicas: number;
  /** The ranks that share the layers of a place. They compute each part together. */
  readonly ranksOfPlace: number;
  readonly places: readonly PlaceTimes[];
  /** The bytes of a message between stages, which each rank of a place sends its part of. */
  readonly messageBytes: number;
  readonly topology: Topology;
  /** How many times as long some ranks take for their computations, by the number of the rank. */
  readonly stragglers?: Readonly<Record<number, number>>;
}

/** The number of all ranks. */
export function sizeOfRun({ schedule, replicas, ranksOfPlace }: SimulatedRun): number {
  return schedule.ranks * replicas * ranksOfPlace;
}

/**
 * The number of a rank: places of the pipeline outermost, then replicas, and the ranks that share layers innermost, as
 * in Megatron.
 */
export function rankAt(
  { replicas, ranksOfPlace }: SimulatedRun,
  place: number,
  replica: number,
  member: number,
): number {
  return (place * replicas + replica) * ranksOfPlace + member;
}

/** Something that a rank does, for a timeline. */
export interface SimulatedSpan {
  readonly name: string;
  readonly category: 'compute' | 'communication' | 'optimizer';
  readonly startSeconds: number;
  readonly endSeconds: number;
}
