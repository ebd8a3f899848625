import { functional, Generator, Linear, type Parameter, type Tensor } from '@shardwise/core/extend';
import type { SharedProduct } from '@shardwise/strategies';
import type { LayerStack } from './adapter-stack.ts';
import { adaptedProduct, type LoraLayer, type MergedUpdate } from './lora-layer.ts';
import { adapterName, type LoraParts } from './lora-parts.ts';
import type { LoraSettings } from './lora-options.ts';
import type { LowRankFactor } from './low-rank-factor.ts';

/** A frozen Linear with an adapter. It has the parameters of the Linear that it replaces, under the same names. */
export class LoraLinear extends Linear implements LoraLayer {
  loraA: LowRankFactor;
  loraB: LowRankFactor;
  loraMagnitudeVector: Parameter | null;
  readonly settings: LoraSettings;
  merged: MergedUpdate | null = null;
  stack: LayerStack | null = null;

  constructor(base: Linear, { settings, loraA, loraB, loraMagnitudeVector }: LoraParts) {
    super(1, 1, { bias: false, generator: new Generator() });
    this.weight = base.weight;
    this.bias = base.bias;
    this.loraA = loraA;
    this.loraB = loraB;
    this.loraMagnitudeVector = loraMagnitudeVector;
    this.settings = settings;
  }

  get mergeableWeight(): Parameter {
    return this.weight;
  }

  /** The layer without its adapter. */
  unwrapped(): Linear {
    const plain = new Linear(1, 1, { bias: false, generator: new Generator() });
    plain.weight = this.weight;
    plain.bias = this.bias;
    return plain;
  }

  /** Shape: x [.., in] -> [.., out]. */
  override forward(x: Tensor): Tensor {
    const product = this.sharedProduct(x, null);
    return this.bias === null ? product : product.add(this.bias);
  }

  sharedProduct(x: Tensor, shared: SharedProduct | null): Tensor {
    return adaptedProduct(this, x, shared);
  }

  baseProduct(x: Tensor): Tensor {
    return functional.linear(x, this.weight);
  }

  weightRows(): Tensor {
    return this.weight;
  }

  fromRows(rows: Tensor): Tensor {
    return rows;
  }

  protected override nameOf(field: string): string {
    return adapterName(field);
  }

  protected override describe(): string {
    return `${super.describe()}, rank=${this.settings.rank}, alpha=${this.settings.alpha}`;
  }
}
