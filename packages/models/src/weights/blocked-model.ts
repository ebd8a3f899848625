import { ConfigError, Linear, type Module } from '@shardwise/core/extend';
import { ggufFormats } from '../quantized/gguf-formats.ts';
import { emptyBlocks, QuantizedLinear } from '../quantized/quantized-linear.ts';
import { replaceModules } from '../quantized/replace-modules.ts';
import type { GgufSource } from './gguf/gguf-source.ts';

/**
 * Replaces the linear layers of a model whose weights are in blocks in a file by frozen ones that keep such blocks.
 * Embeddings and heads stay as they are. Throws ConfigError if the file has no weight of a linear layer in blocks.
 */
export function keepBlocks<M extends Module>(model: M, source: GgufSource): M {
  const replacements = new Map<Module, Module>();
  for (const [path, layer] of model.namedModules()) {
    // Subclasses do more than a product.
    if (!(layer instanceof Linear) || layer.constructor !== Linear) continue;
    const type = source.blocksOf(`${path}.weight`);
    const [outFeatures = 0, inFeatures = 0] = layer.weight.shape;
    if (type === null || inFeatures % type.elements !== 0) continue;
    const parts = emptyBlocks(ggufFormats[type.name], [outFeatures, inFeatures]);
    replacements.set(
      layer,
      new QuantizedLinear({ ...parts, bias: layer.bias, isTransposedInFiles: false }),
    );
  }
  if (replacements.size === 0) throw withoutBlocks(source.place);
  replaceModules(model, replacements);
  return model;
}

/** The names of the weights of a model that are the blocks of a file. */
export function namesOfBlocks(model: Module): ReadonlySet<string> {
  const names = model
    .namedModules()
    .flatMap(([path, layer]) =>
      layer instanceof QuantizedLinear && layer.format.name in ggufFormats ? `${path}.weight` : [],
    );
  return new Set(names);
}

/** Throws ConfigError. */
export function withoutBlocks(place: string): ConfigError {
  return new ConfigError(
    {
      asked: `the weights of ${place} as the file keeps them (quantized: true)`,
      found: 'no weight of a linear layer in blocks of few bits',
      todo: 'Give a GGUF file of Q8_0, Q4_K_M or the like, or write quantize: { bits: 4 }, which makes blocks of the weights of any file',
    },
    { place },
  );
}
