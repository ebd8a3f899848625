import type { nn, optim, Tensor } from '@shardwise/core';
import type { MeshAxis, Strategy } from '@shardwise/core/spec';

/** A small model and the data that it is trained on. */
export interface StrategyModel {
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** The rows of the batch of all ranks. Every tested number of ranks divides it. */
  readonly rows: number;
  /** The rows from `first` to `stop` of a step's batch. Floating-point inputs get a gradient, too. */
  readonly batch: (step: number, first: number, stop: number) => StrategyBatch;
  /** The mean over the rows of the loss of what the model returns on many ranks. Shape: output, y -> []. */
  readonly loss: (output: Tensor, y: Tensor) => Tensor;
  /** The same for what the model returns on one rank. Default: `loss`. */
  readonly lossAlone?: (output: Tensor, y: Tensor) => Tensor;
}

/** Inputs and targets. */
export interface StrategyBatch {
  readonly x: Tensor;
  readonly y: Tensor;
}

/** A strategy, and what it is tested with. */
export interface StrategyCase {
  /**
   * The strategy for a number of ranks. A strategy that computes the loss itself, such as `pipeline({ loss })`,
   * must use the loss of the model, and gets targets in each pass.
   */
  readonly strategy: (size: number, model: StrategyModel) => Strategy;
  /**
   * The mesh of a number of ranks; null if the strategy does not work with so many. Default: all ranks are on
   * `dp`.
   */
  readonly mesh?: (size: number) => readonly MeshAxis[] | null;
  /** Default: `contractModels`. */
  readonly models?: Readonly<Record<string, StrategyModel>>;
  /**
   * The number of steps after which the communication of the ranks repeats itself: a multiple of `everySteps` of each
   * message of the plan. Default: 1.
   */
  readonly period?: number;
  /** Operations that divide batch and outputs among the ranks and that a plan does not list. Default: none. */
  readonly apart?: readonly string[];
  /** The losses that the ranks must have in the mean. Default: those of one rank that has the whole batch. */
  readonly expectedLosses?: (training: ExpectedTraining) => Promise<readonly number[]>;
}

/** The training of a test, to be done on one rank. */
export interface ExpectedTraining {
  readonly model: StrategyModel;
  readonly stepCount: number;
  /** The number of ranks that each have a part of the batch. */
  readonly shares: number;
  /** A rank's part of a step's batch. */
  readonly batchOf: (step: number, share: number) => StrategyBatch;
  /** Makes the optimizer that each rank has. Begin models with `manualSeed(0)`. */
  readonly makeOptimizer: (module: nn.Module) => optim.AdamW;
}

/** Cases by name. */
export type StrategyCases = Readonly<Record<string, StrategyCase>>;
