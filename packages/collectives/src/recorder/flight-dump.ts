/**
 * What one rank leaves when communication fails, in the layout of PyTorch's flight recorder, whose
 * field names these are. Sequence numbers count from 0, as in this package's errors. Fields that
 * PyTorch does not have say so.
 */
export interface FlightDump {
  readonly version: string;
  /** Ours: of the world. */
  readonly rank: number;
  /** Ours. */
  readonly world_size: number;
  /** By the number of the group on this rank. */
  readonly pg_config: Readonly<Record<string, FlightGroup>>;
  readonly pg_status: Readonly<Record<string, FlightStatus>>;
  /** The latest calls, oldest first. */
  readonly entries: readonly FlightEntry[];
  /** Ours: the first call of this rank that failed; null where none has. */
  readonly failure: FlightFailure | null;
}

export interface FlightGroup {
  /** The same on all ranks of the group. */
  readonly name: string;
  readonly desc: string;
  /** `[0, 2]`: ranks of the world, in the order of the group. */
  readonly ranks: string;
}

/** Sequence numbers; -1: none. */
export interface FlightStatus {
  readonly last_enqueued_collective: number;
  readonly last_started_collective: number;
  readonly last_completed_collective: number;
}

export interface FlightEntry {
  /** Counts all calls of the rank. */
  readonly record_id: number;
  readonly pg_id: number;
  /** Name and description of the group. */
  readonly process_group: readonly [string, string];
  /** Of point-to-point messages: that of the next collective. */
  readonly collective_seq_id: number;
  /** Of collectives: that of the next message. */
  readonly p2p_seq_id: number;
  /** Counts all calls on the group. */
  readonly op_id: number;
  /** `shardwise:allReduce`, `shardwise:send 0->1`, `shardwise:recv 1<-0`, with ranks of the group. */
  readonly profiling_name: string;
  /** Nanoseconds since the epoch, as all points in time here. */
  readonly time_created_ns: number;
  /** From the start, where it is known, to the completion. */
  readonly duration_ms: number | null;
  readonly input_sizes: readonly (readonly number[])[];
  readonly input_dtypes: readonly string[];
  readonly output_sizes: readonly (readonly number[])[];
  readonly output_dtypes: readonly string[];
  /** A call is started when all ranks of its group have come to it and its data begins to move. */
  readonly state: FlightState;
  readonly time_discovered_started_ns: number | null;
  readonly time_discovered_completed_ns: number | null;
  /** Whether the caller has been told of its end. */
  readonly retired: boolean;
  /** Null: without limit. */
  readonly timeout_ms: number | null;
  readonly is_p2p: boolean;
  /** The call site, innermost first, without the frames of these packages; empty where not captured. */
  readonly frames: readonly FlightFrame[];
  /** Ours: `sum`, `premultipliedSum 2`; null where nothing is reduced. */
  readonly reduce_op: string | null;
  /** Ours: of the group. */
  readonly root: number | null;
  /** Ours: elements to each rank and from each rank of an all-to-all. */
  readonly splits: FlightSplits | null;
  /** Ours: of point-to-point messages. */
  readonly message: FlightMessage | null;
}

export type FlightState = 'scheduled' | 'started' | 'completed';

export interface FlightFrame {
  readonly name: string;
  readonly filename: string;
  readonly line: number;
}

export interface FlightSplits {
  readonly input: readonly number[];
  readonly output: readonly number[];
}

export interface FlightMessage {
  /** Rank of the group. */
  readonly peer: number;
  readonly tag: number;
  /** Counts the messages in this direction with this peer and tag. */
  readonly number: number;
}

export interface FlightFailure {
  /** Stable code of the error, as COLLECTIVE_TIMEOUT. */
  readonly code: string;
  readonly message: string;
  readonly time_ns: number;
  /** `record_id` of the call. */
  readonly record_id: number;
  /** Of a timeout: ranks of the world that had not come, as far as this rank could see. */
  readonly missing_ranks: readonly number[] | null;
}
