import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { concat, stack, zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { dropout } from '../functional/dropout.ts';
import { linear } from '../functional/linear.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';

/** Options of `LSTM` and `GRU`. */
export interface RecurrentOptions {
  /** The number of layers on top of each other. Default: 1. */
  readonly numLayers?: number;
  /** Whether there are biases. Default: true. */
  readonly bias?: boolean;
  /** Whether x is [N, T, F] instead of [T, N, F]. Default: false, as in PyTorch. */
  readonly batchFirst?: boolean;
  /**
   * The probability with which elements are dropped between two layers while training. It needs several layers.
   * Default: 0.
   */
  readonly dropout?: number;
  /** Whether each layer also has a second cell that reads from the end. Default: false. */
  readonly bidirectional?: boolean;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

const recurrentRules: OptionRules<RecurrentOptions> = {
  numLayers: option.integer(1),
  bias: option.flag,
  batchFirst: option.flag,
  dropout: option.fraction,
  bidirectional: option.flag,
  generator: option.instanceOf(Generator),
};
const sizeRules: OptionRules<{ inputSize: number; hiddenSize: number }> = {
  inputSize: option.required(option.integer(1)),
  hiddenSize: option.required(option.integer(1)),
};

/** The states of a cell. The first one is its output. Shape: each [N, H]. */
export type CellState = readonly Tensor[];

/** The parameters of one direction of a layer, for G gates. Shape: [G H, I], [G H, H], [G H], [G H]. */
export interface Cell {
  readonly inputWeight: Parameter;
  readonly hiddenWeight: Parameter;
  readonly inputBias: Parameter | null;
  readonly hiddenBias: Parameter | null;
}

/**
 * The base class of LSTM and GRU, with layers, directions and PyTorch's parameters: weight_ih_l0, weight_hh_l0,
 * bias_ih_l0, bias_hh_l0, …. The names of cells that read from the end have the suffix _reverse. The graph grows with
 * T. Sequences of the same length share a plan.
 */
export abstract class Recurrent extends Module {
  readonly inputSize: number;
  readonly hiddenSize: number;
  readonly numLayers: number;
  readonly batchFirst: boolean;
  readonly dropout: number;
  readonly bidirectional: boolean;
  readonly #bias: boolean;

  /** Throws ConfigError. */
  constructor(inputSize: number, hiddenSize: number, gates: number, options: RecurrentOptions) {
    super();
    const { name } = this.constructor;
    checkOptions(name, { inputSize, hiddenSize }, sizeRules);
    checkOptions(name, options, recurrentRules);
    const { numLayers = 1, bias = true, batchFirst = false, bidirectional = false } = options;
    const { generator = defaultGenerator(), dropout: probability = 0 } = options;
    if (probability > 0 && numLayers === 1) throw noLayerBetween(name, probability);
    this.inputSize = inputSize;
    this.hiddenSize = hiddenSize;
    this.numLayers = numLayers;
    this.batchFirst = batchFirst;
    this.dropout = probability;
    this.bidirectional = bidirectional;
    this.#bias = bias;
    const bound = 1 / Math.sqrt(hiddenSize);
    const rows = gates * hiddenSize;
    for (let layer = 0; layer < numLayers; layer++) {
      const width = layer === 0 ? inputSize : hiddenSize * this.#directions;
      for (let direction = 0; direction < this.#directions; direction++) {
        const shapes: readonly (readonly [string, Shape])[] = [
          ['weight_ih', [rows, width]],
          ['weight_hh', [rows, hiddenSize]],
          ...(bias
            ? ([
                ['bias_ih', [rows]],
                ['bias_hh', [rows]],
              ] as const)
            : []),
        ];
        for (const [kind, shape] of shapes) {
          const values = init.uniform(generator, shape, -bound, bound);
          // The parameters are fields with PyTorch's names, so that strategies can replace them.
          Reflect.set(this, fieldName(kind, layer, direction), new Parameter(values, shape));
        }
      }
    }
  }

  get #directions(): number {
    return this.bidirectional ? 2 : 1;
  }

  /**
   * Runs all layers over all steps. Shape: x [T, N, F] (or [N, T, F]), initial states [L D, N, H] -> the last layer's
   * [T, N, D H] (or [N, T, D H]), final states [L D, N, H].
   */
  protected run(
    x: Tensor,
    initial: readonly Tensor[] | undefined,
    kinds: readonly string[],
  ): { readonly output: Tensor; readonly states: readonly Tensor[] } {
    const operation = this.constructor.name;
    const features = ['features', this.inputSize] as const;
    const dims = this.batchFirst
      ? (['N', 'T', features] as const)
      : (['T', 'N', features] as const);
    requireShape({ operation, name: 'x', value: x }, dims);
    const batch = sizeAt(x.shape, this.batchFirst ? 0 : 1);
    const cells = this.numLayers * this.#directions;
    const given = kinds.map((kind, index) => {
      if (initial === undefined) return zeros([cells, batch, this.hiddenSize], x.dtype);
      const value = initial[index];
      if (value === undefined) throw noState(operation, kind);
      requireShape({ operation, name: kind, value }, [
        ['layers times directions', cells],
        ['sequences', batch],
        ['features', this.hiddenSize],
      ]);
      return value;
    });
    let sequence = this.batchFirst ? x.transpose(0, 1) : x;
    const last: CellState[] = [];
    for (let layer = 0; layer < this.numLayers; layer++) {
      const outputs: Tensor[] = [];
      for (let direction = 0; direction < this.#directions; direction++) {
        const at = layer * this.#directions + direction;
        const first = given.map((state) => state.select(0, at));
        const { steps, state } = this.#runCell(sequence, layer, direction, first);
        outputs.push(steps);
        last.push(state);
      }
      const [only] = outputs;
      sequence = outputs.length === 1 && only !== undefined ? only : concat(outputs, 2);
      const isBetween = layer < this.numLayers - 1;
      if (isBetween && this.training) sequence = dropout(sequence, this.dropout);
    }
    const states = kinds.map((_, index) => stack(last.map((state) => elementOf(state, index))));
    return { output: this.batchFirst ? sequence.transpose(0, 1) : sequence, states };
  }

  /** Computes one step of a cell. Shape: gates of the input [N, G H], each state [N, H] -> each [N, H]. */
  protected abstract step(gates: Tensor, state: CellState, cell: Cell): CellState;

  /** Runs one cell over all steps. Shape: [T, N, I], each state [N, H] -> [T, N, H], each state [N, H]. */
  #runCell(
    sequence: Tensor,
    layer: number,
    direction: number,
    first: CellState,
  ): { readonly steps: Tensor; readonly state: CellState } {
    const cell = this.#cell(layer, direction);
    const length = sizeAt(sequence.shape, 0);
    // The input's contribution to all gates in all steps is computed as one product.
    const gates = linear(sequence, cell.inputWeight, cell.inputBias);
    const steps: Tensor[] = [];
    let state = first;
    for (let step = 0; step < length; step++) {
      const at = direction === 0 ? step : length - 1 - step;
      state = this.step(gates.select(0, at), state, cell);
      steps.push(elementOf(state, 0));
    }
    return { steps: stack(direction === 0 ? steps : steps.toReversed()), state };
  }

  #cell(layer: number, direction: number): Cell {
    const bias = (kind: string): Parameter | null =>
      this.#bias ? this.#parameter(fieldName(kind, layer, direction)) : null;
    return {
      inputWeight: this.#parameter(fieldName('weight_ih', layer, direction)),
      hiddenWeight: this.#parameter(fieldName('weight_hh', layer, direction)),
      inputBias: bias('bias_ih'),
      hiddenBias: bias('bias_hh'),
    };
  }

  #parameter(field: string): Parameter {
    const value: unknown = Reflect.get(this, field);
    if (value instanceof Parameter) return value;
    throw new RangeError(`a parameter ${field}`);
  }

  protected override describe(): string {
    return [
      `${this.inputSize}, ${this.hiddenSize}, numLayers=${this.numLayers}, bias=${this.#bias}`,
      `batchFirst=${this.batchFirst}, dropout=${this.dropout}, bidirectional=${this.bidirectional}`,
    ].join(', ');
  }
}

/** The error for dropout with a single layer. PyTorch only warns. */
function noLayerBetween(name: string, dropout: number): ConfigError {
  return new ConfigError(
    {
      asked: `${name} with dropout ${dropout}`,
      found: 'one layer: dropout is between layers, and would have no effect',
      todo: 'Use more layers, or a Dropout behind this one',
    },
    { dropout },
  );
}

function fieldName(kind: string, layer: number, direction: number): string {
  return `${kind}_l${layer}${direction === 0 ? '' : '_reverse'}`;
}

/** Returns a state of a cell. It must exist. */
export function elementOf(state: CellState, index: number): Tensor {
  const element = state[index];
  if (element === undefined) throw new RangeError(`state ${index} of a cell`);
  return element;
}

function noState(operation: string, kind: string): ConfigError {
  return new ConfigError(
    {
      asked: `${operation} with initial states`,
      found: `no ${kind} state`,
      todo: 'Give all of its states, or none',
    },
    { kind },
  );
}
