import type { Work } from './graph-ledger.ts';

/** What a module did, together with all modules that it calls. */
export interface ModuleProfile {
  /** The path of the module in the model. It is '' for the model itself. */
  readonly path: string;
  readonly type: string;
  /** The module as it prints, without the modules below it, such as `Linear(inFeatures=10, outFeatures=10)`. */
  readonly description: string;
  readonly calls: number;
  /** The number of elements of parameters of the whole module, and of what this rank keeps of them. */
  readonly params: number;
  readonly paramsOfRank: number;
  readonly work: Work;
  /** The milliseconds of the forward pass. Undefined if it was not measured. */
  readonly forwardMs: number | undefined;
}

/** What this rank did between `startProfile` and `stopProfile`. It prints as a report. */
export interface ModelProfile {
  /** The model first, and then all modules below it, parents first. */
  readonly modules: readonly ModuleProfile[];
  /** The operations of the forward pass of the model. */
  readonly flops: number;
  /** The multiply-adds of products in the forward pass of the model. */
  readonly macs: number;
  /** The number of elements of the model's parameters. Shared parameters count once. */
  readonly params: number;
  /** All that ran, by phase, with what the model's modules did not do, such as the loss. */
  readonly work: Work;
  /** The number of ranks. */
  readonly worldSize: number;
  /** The milliseconds of the forward pass, of the backward pass, and of the whole. Undefined if not measured. */
  readonly forwardMs: number | undefined;
  readonly backwardMs: number | undefined;
  readonly totalMs: number;
  /** The report. */
  toString(): string;
}
