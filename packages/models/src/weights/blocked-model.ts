import {
  ConfigError,
  type DecodedFormat,
  Embedding,
  Linear,
  type Module,
  type Named,
  type Tensor,
} from '@shardwise/core/extend';
import { BlockedHead } from '../layers/blocked-head.ts';
import { LanguageModelHead } from '../layers/language-model-head.ts';
import { BlockedEmbedding } from '../quantized/blocked-embedding.ts';
import { isGgufFormat } from '../quantized/block-format.ts';
import { ggufFormats } from '../quantized/gguf-formats.ts';
import { isKeptInBlocks } from '../quantized/kept-in-blocks.ts';
import { emptyBlocks, QuantizedLinear } from '../quantized/quantized-linear.ts';
import { replaceModules } from '../quantized/replace-modules.ts';
import type { GgufSource } from './gguf/gguf-source.ts';

/** A layer whose weight can stay in blocks. */
type BlockedLayer = Linear | Embedding;

/**
 * Replaces the linear layers, embeddings and heads of a model whose weights are in blocks in a file by frozen ones that keep
 * such blocks. Layers that share a weight share its blocks. Throws ConfigError if the file has no weight of such a layer in
 * blocks.
 */
export function keepBlocks<M extends Module>(model: M, source: GgufSource): M {
  const replacements = new Map<Module, Module>();
  for (const [weight, layers] of layersByWeight(model)) {
    const type = layers
      .map(([path]) => source.blocksOf(`${path}.weight`))
      .find((each) => each !== null);
    const [rows = 0, columns = 0] = weight.shape;
    if (type === undefined || columns % type.elements !== 0) continue;
    const format = ggufFormats[type.name];
    const parts = emptyBlocks(format, [rows, columns]);
    for (const [, layer] of layers) replacements.set(layer, inBlocks(layer, format, parts));
  }
  if (replacements.size === 0) throw withoutBlocks(source.place);
  replaceModules(model, replacements);
  return model;
}

/** The layers of each weight that only such layers have. */
function layersByWeight(model: Module): ReadonlyMap<Tensor, readonly Named<BlockedLayer>[]> {
  const layers = model
    .namedModules()
    .filter((entry): entry is Named<BlockedLayer> => canKeepBlocks(entry[1]));
  const found = Map.groupBy<Tensor, Named<BlockedLayer>>(layers, ([, { weight }]) => weight);
  const names = new Set(layers.map(([path]) => `${path}.weight`));
  for (const [name, tensor] of model.namedState()) if (!names.has(name)) found.delete(tensor);
  return found;
}

/** Other subclasses may do more than a product or a look-up. */
function canKeepBlocks(layer: Module): layer is BlockedLayer {
  if (layer instanceof Embedding) return layer.forward === Embedding.prototype.forward;
  if (layer instanceof LanguageModelHead) return layer.bias === null;
  return layer instanceof Linear && layer.constructor === Linear;
}

function inBlocks(
  layer: BlockedLayer,
  format: DecodedFormat,
  parts: ReturnType<typeof emptyBlocks>,
): Module {
  const { weight } = parts;
  if (layer instanceof Embedding) return new BlockedEmbedding(weight, format, layer.weight.dtype);
  if (layer instanceof LanguageModelHead) return new BlockedHead(weight, format, layer.softcap);
  return new QuantizedLinear({ ...parts, bias: layer.bias, isTransposedInFiles: false });
}

/** The formats of the weights of a model that are the blocks of a file, by their names. */
export function formatsOfBlocks(model: Module): ReadonlyMap<string, string> {
  const formats = model
    .namedModules()
    .flatMap(([path, layer]) =>
      isKeptInBlocks(layer) && isGgufFormat(layer.format)
        ? [[`${path}.weight`, layer.format.name] as const]
        : [],
    );
  return new Map(formats);
}

/** Throws ConfigError. */
export function withoutBlocks(place: string): ConfigError {
  return new ConfigError(
    {
      asked: `the weights of ${place} as the file keeps them (quantized: true)`,
      found: 'no weight of a layer in blocks of few bits',
      todo: 'Give a GGUF file of Q8_0, Q4_K_M or the like, or leave quantized out; quantize: { bits: 4 } makes blocks of the weights of any file',
    },
    { place },
  );
}
