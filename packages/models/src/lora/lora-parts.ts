import { type Generator, noGrad, Parameter, type Shape, type Tensor } from '@shardwise/core/extend';
import { LowRankFactor } from './low-rank-factor.ts';
import type { LoraSettings } from './lora-options.ts';

/** What an adapter adds to a layer. */
export interface LoraParts {
  readonly settings: LoraSettings;
  readonly loraA: LowRankFactor;
  readonly loraB: LowRankFactor;
  readonly loraMagnitudeVector: Parameter | null;
}

/** The state names of the members of a layer with an adapter, which are PEFT's. */
const stateNames: ReadonlyMap<string, string> = new Map([
  ['loraA', 'lora_A'],
  ['loraB', 'lora_B'],
  ['loraMagnitudeVector', 'lora_magnitude_vector'],
]);

export function adapterName(field: string): string {
  return stateNames.get(field) ?? field;
}

/**
 * Makes the parts of an adapter that changes nothing yet: B is zero. `lengths` are those of the rows of the weight, for
 * DoRA; with null, `measureRows` finds them later. Shape: weight [out, in], lengths [out].
 */
export function initialParts(
  settings: LoraSettings,
  [outFeatures = 0, inFeatures = 0]: Shape,
  generator: Generator,
  lengths: Tensor | null,
): LoraParts {
  return {
    settings,
    loraA: LowRankFactor.drawn(generator, settings.rank, inFeatures),
    loraB: LowRankFactor.ofZeros(outFeatures, settings.rank),
    loraMagnitudeVector: settings.useDora ? magnitudeOf(outFeatures, lengths) : null,
  };
}

function magnitudeOf(outFeatures: number, lengths: Tensor | null): Parameter {
  const magnitude = new Parameter(new Float32Array(outFeatures), [outFeatures]);
  if (lengths !== null) noGrad(() => magnitude.assign(lengths));
  return magnitude;
}
