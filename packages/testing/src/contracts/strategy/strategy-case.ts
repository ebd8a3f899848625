import type { nn, optim, Tensor } from '@shardwise/core';
import type { MeshAxis, Strategy } from '@shardwise/core/spec';

/** A small model and what it is trained on. */
export interface StrategyModel {
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** Rows of the batch of all ranks; every number of ranks that is tried divides it. */
  readonly rows: number;
  /** Rows first to stop of a step's batch. Floating-point inputs are given a gradient, too. */
  readonly batch: (step: number, first: number, stop: number) => StrategyBatch;
  /** Mean over the rows, of what the model returns on many ranks. Shape: output, y -> []. */
  readonly loss: (output: Tensor, y: Tensor) => Tensor;
  /** Of what the model returns on one rank. Default: `loss`. */
  readonly lossAlone?: (output: Tensor, y: Tensor) => Tensor;
}

export interface StrategyBatch {
  readonly x: Tensor;
  readonly y: Tensor;
}

/** A strategy, and on what it is tried. */
export interface StrategyCase {
  /**
   * For a number of ranks. One that computes the loss itself, as `pipeline({ loss })`, is given the model's loss by whoever
   * makes it, and targets in each pass.
   */
  readonly strategy: (size: number, model: StrategyModel) => Strategy;
  /** The mesh of a number of ranks; null where the strategy is not for so many. Default: all are on `dp`. */
  readonly mesh?: (size: number) => readonly MeshAxis[] | null;
  /** Default: `contractModels`. */
  readonly models?: Readonly<Record<string, StrategyModel>>;
  /**
   * Steps after which what ranks communicate repeats itself: the plan's messages are those of as many
   * steps. Default: 1.
   */
  readonly period?: number;
  /** Operations by which ranks share out batch and outputs, of which a plan does not tell. Default: none. */
  readonly apart?: readonly string[];
  /** Losses that the ranks' mean must be. Default: those of one rank that has the whole batch. */
  readonly expectedLosses?: (training: ExpectedTraining) => Promise<readonly number[]>;
}

/** A training as a strategy is tried on, to be done on one rank. */
export interface ExpectedTraining {
  readonly model: StrategyModel;
  readonly stepCount: number;
  /** Of how many ranks each has a part of the batch. */
  readonly shares: number;
  /** A rank's part of a step's batch. */
  readonly batchOf: (step: number, share: number) => StrategyBatch;
  /** The one that each rank has. Begin models with `manualSeed(0)`. */
  readonly makeOptimizer: (module: nn.Module) => optim.AdamW;
}

export type StrategyCases = Readonly<Record<string, StrategyCase>>;
