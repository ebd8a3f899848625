/** How parameters are stored, and what the optimizer keeps: bytes of an element. */
export interface StateBytes {
  readonly parameter: number;
  readonly gradient: number;
  readonly optimizer: number;
}

/** A precision of training. */
export type Precision = 'f32' | 'mixed' | 'mixed, f32 gradients';

/** The bytes of an element with Adam. */
export const precisions: Readonly<Record<Precision, StateBytes>> = {
  /** Parameters, gradients and both moments in f32. */
  f32: { parameter: 4, gradient: 4, optimizer: 8 },
  /** 16 bits with a copy of the parameters in f32 (Rajbhandari et al. 2020, "ZeRO": 2 + 2 + K with K = 12). */
  mixed: { parameter: 2, gradient: 2, optimizer: 12 },
  /** The same, with gradients that add up in f32 (Megatron-LM: 18 bytes of an element). */
  'mixed, f32 gradients': { parameter: 2, gradient: 4, optimizer: 12 },
};

/** The states that the ranks of data parallelism divide. 0: none, 1: optimizer states, 2: gradients, 3: parameters. */
export type ZeroStage = 0 | 1 | 2 | 3;

/** The bytes of the states of `parameters` elements on one of `ranks` ranks. */
export function statesOnRank(
  parameters: number,
  precision: Precision,
  zero: ZeroStage,
  ranks: number,
): StateBytes {
  const { parameter, gradient, optimizer } = precisions[precision];
  return {
    parameter: (parameter * parameters) / (zero >= 3 ? ranks : 1),
    gradient: (gradient * parameters) / (zero >= 2 ? ranks : 1),
    optimizer: (optimizer * parameters) / (zero >= 1 ? ranks : 1),
  };
}

/** Adds up the three kinds of states. */
export function sumOfStates({ parameter, gradient, optimizer }: StateBytes): number {
  return parameter + gradient + optimizer;
}
