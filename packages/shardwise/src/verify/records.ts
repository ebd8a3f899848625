import type { DType, Layout } from '@shardwise/core/extend';

// What the runs that are compared leave behind. It is plain data, because ranks send it to each other.

/** When a value is recorded. In a step, the kinds come in this order. */
export type RecordedKind = 'initial' | 'output' | 'loss' | 'gradient' | 'parameter' | 'buffer';

/** The elements of a recorded tensor. Floats of 16 bits are f32 here. */
export type Elements = Float32Array | Int32Array | BigInt64Array | Uint8Array;

/** A value of one rank. */
export type RecordedValue = {
  readonly kind: RecordedKind;
  /** The name of the parameter or buffer, or the path of the module. */
  readonly name: string;
  /** The number of the optimizer update that the value belongs to, from 1 on. 0 for initial values. */
  readonly step: number;
  /** How many values of the same kind and name the rank has recorded before in this step. */
  readonly call: number;
  /** The part of the batch, if one rank passes the parts one after the other. Else null. */
  readonly part: number | null;
  /** The microbatch of the pass, if the pass has several. Else null. */
  readonly microbatch: number | null;
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly elements: Elements;
  /** How a part of a parameter lies on the mesh, and the shape of the whole. Null for values that are no parts. */
  readonly whole: { readonly layout: Layout; readonly shape: readonly number[] } | null;
  /** The axes on which each rank has a value of its own, and those over which the value is a sum. */
  readonly varying: readonly string[];
  readonly partial: readonly string[];
};

/** What tells a value from all others of a run. */
export type ValuePlace = Pick<
  RecordedValue,
  'kind' | 'name' | 'step' | 'call' | 'part' | 'microbatch'
>;

/** A tensor that the program made of data. */
export type RecordedLeaf = {
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly bytes: Uint8Array;
};

/** A forward pass with gradients. */
export type RecordedPass = {
  readonly step: number;
  /** The shapes of the tensors among the inputs, in their order. */
  readonly shapes: readonly (readonly number[])[];
  /** Hashes of these tensors, by which equal batches are found. */
  readonly inputs: readonly string[];
  /** Whether random numbers were drawn in it. */
  readonly draws: boolean;
};

/** What the plan says of the model. */
export type RecordedPlan = {
  readonly strategy: string;
  readonly batchAxes: readonly string[];
  /** The number of microbatches of a pipeline, or 0 if the plan has no stages. */
  readonly microbatches: number;
  /** The unit roundoff of the narrowest dtype in which the plan computes. */
  readonly roundoff: number;
  readonly parameters: Readonly<
    Record<string, { readonly layout: string; readonly actions: readonly string[] }>
  >;
  /** What the plan does to outputs of modules, by the path of the module. */
  readonly modules: Readonly<Record<string, readonly string[]>>;
};

/** What one rank has recorded. */
export type RankRecord = {
  /** The rank's place on each axis. */
  readonly places: Readonly<Record<string, { readonly size: number; readonly rank: number }>>;
  readonly plan: RecordedPlan;
  readonly leaves: Readonly<Record<string, RecordedLeaf>>;
  readonly passes: readonly RecordedPass[];
  readonly values: readonly RecordedValue[];
  /** The number of backward passes before each update. */
  readonly backwards: readonly number[];
  /** The parameters whose gradient of the step before was still there in a backward pass, with the step. */
  readonly keptGradients: readonly { readonly step: number; readonly name: string }[];
  /** The classes of the modules, by path. */
  readonly classes: Readonly<Record<string, string>>;
};

/** The number of a rank's part of the batch, as plans count it, and the number of parts. */
export function partOf({ places, plan }: Pick<RankRecord, 'places' | 'plan'>): {
  readonly part: number;
  readonly parts: number;
} {
  let [part, parts] = [0, 1];
  for (const axis of plan.batchAxes) {
    const { size, rank } = places[axis] ?? { size: 1, rank: 0 };
    [part, parts] = [part * size + rank, parts * size];
  }
  return { part, parts };
}

/** A key of a value that is the same in all runs. */
export function keyOf(value: ValuePlace): string {
  const { kind, name, step, call, part, microbatch } = value;
  return JSON.stringify([kind, name, step, call, part, microbatch]);
}

/** Whether plain data from another rank of this program is a record. */
export function isRankRecord(value: unknown): value is RankRecord {
  if (typeof value !== 'object' || value === null) return false;
  const needed = ['places', 'plan', 'leaves', 'passes', 'values', 'backwards', 'keptGradients'];
  return needed.every((name) => name in value);
}
