import type { Linear, Tensor } from '@shardwise/core/extend';
import { StateModule } from '../model/state-module.ts';
import { activate, type ActivationName } from './activations.ts';
import type { InitialValues } from './initial-values.ts';

/** The sizes and the activation of a `GatedMLP`. */
export interface GatedMLPSettings {
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly activation: ActivationName;
  readonly bias: boolean;
}

/** A gated perceptron (Shazeer 2020), down(act(gate(x)) up(x)): SwiGLU with silu. */
export class GatedMLP extends StateModule {
  readonly gateProj: Linear;
  readonly upProj: Linear;
  readonly downProj: Linear;
  readonly #activation: ActivationName;

  constructor(settings: GatedMLPSettings, values: InitialValues) {
    super();
    const { hiddenSize, intermediateSize, activation, bias } = settings;
    this.gateProj = values.linear(hiddenSize, intermediateSize, { bias });
    this.upProj = values.linear(hiddenSize, intermediateSize, { bias });
    this.downProj = values.linear(intermediateSize, hiddenSize, { bias });
    this.#activation = activation;
  }

  /** Shape: x [.., C] -> [.., C]. */
  forward(x: Tensor): Tensor {
    const gate = activate(this.gateProj.forward(x), this.#activation);
    return this.downProj.forward(gate.mul(this.upProj.forward(x)));
  }
}
