import type { Parameter, Tensor } from '@shardwise/core/extend';
import type { SharedProduct } from '@shardwise/strategies';
import { QuantizedLinear } from '../quantized/quantized-linear.ts';
import type { LayerStack } from './adapter-stack.ts';
import { adaptedProduct, type LoraLayer, type MergedUpdate } from './lora-layer.ts';
import { adapterName, type LoraParts } from './lora-parts.ts';
import type { LoraSettings } from './lora-options.ts';
import type { LowRankFactor } from './low-rank-factor.ts';

/** A layer in few bits with an adapter (QLoRA). It has the parameters of the layer that it replaces. */
export class LoraQuantizedLinear extends QuantizedLinear implements LoraLayer {
  loraA: LowRankFactor;
  loraB: LowRankFactor;
  loraMagnitudeVector: Parameter | null;
  readonly settings: LoraSettings;
  merged: MergedUpdate | null = null;
  stack: LayerStack | null = null;

  constructor(base: QuantizedLinear, { settings, loraA, loraB, loraMagnitudeVector }: LoraParts) {
    super(base);
    this.loraA = loraA;
    this.loraB = loraB;
    this.loraMagnitudeVector = loraMagnitudeVector;
    this.settings = settings;
  }

  get mergeableWeight(): null {
    return null;
  }

  /** The layer without its adapter. */
  unwrapped(): QuantizedLinear {
    return new QuantizedLinear(this);
  }

  /** Shape: x [.., in], or this rank's part of it -> [.., out], or this rank's part of it. */
  override sharedProduct(x: Tensor, shared: SharedProduct | null): Tensor {
    return adaptedProduct(this, x, shared);
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
