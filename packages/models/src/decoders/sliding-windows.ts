import { z } from 'zod';
import * as rule from '../layers/schema.ts';

/** Which layers of Qwen's models see only the last keys. */
export interface WindowConfig {
  readonly numHiddenLayers: number;
  readonly useSlidingWindow: boolean;
  /** The number of keys that layers with a window see. */
  readonly slidingWindow: number | null;
  /** Layers from this one on have a window. */
  readonly maxWindowLayers: number;
  /** The kind of each layer. Null: by maxWindowLayers. */
  readonly layerTypes: readonly rule.LayerType[] | null;
}

/** The rules of these keys. */
export const windowShape: {
  readonly useSlidingWindow: z.ZodDefault<z.ZodBoolean>;
  readonly slidingWindow: z.ZodDefault<z.ZodNullable<z.ZodNumber>>;
  readonly maxWindowLayers: z.ZodDefault<z.ZodNumber>;
  readonly layerTypes: z.ZodDefault<typeof rule.layerTypes>;
} = {
  useSlidingWindow: z.boolean().default(false),
  slidingWindow: rule.size.nullable().default(4096),
  maxWindowLayers: z.int().min(0).default(28),
  layerTypes: rule.layerTypes.default(null),
};

/** Returns the window of each layer as Qwen's configs say it. */
export function laterWindows(config: WindowConfig): (layer: number) => number | undefined {
  const { useSlidingWindow, slidingWindow, maxWindowLayers, layerTypes } = config;
  return (layer) => {
    if (!useSlidingWindow || slidingWindow === null) return undefined;
    const hasWindow =
      layerTypes === null ? layer >= maxWindowLayers : layerTypes[layer] === 'sliding_attention';
    return hasWindow ? slidingWindow : undefined;
  };
}
