import { CheckpointError, type ModelFolder, openFile, readBytes } from '@shardwise/core/extend';
import { rotaryFrequencies } from '../../layers/rotary-frequencies.ts';
import type { RopeParameters } from '../../layers/rope-parameters.ts';
import type { GgufFile } from './gguf-file.ts';

/** The tensor of the factors by which the frequencies of a rotary embedding are divided, one for each pair of channels. */
export const ROPE_FACTORS = 'rope_freqs.weight';

interface RopeSizes {
  /** Null if the file has none. */
  readonly factors: Float32Array | null;
  readonly theta: number;
  readonly headDim: number;
}

/** Reads the factors of frequencies. Throws CheckpointError if they are not numbers of f32. */
export async function ropeFactors(
  folder: ModelFolder,
  name: string,
  { path, tensors }: GgufFile,
): Promise<Float32Array> {
  const { type, shape = [], byteOffset = 0 } = tensors.get(ROPE_FACTORS) ?? {};
  const [count = 0, ...more] = shape;
  if (type?.name !== 'F32' || more.length > 0) {
    throw refusal(path, `${ROPE_FACTORS} of the type ${type?.name} with ${shape.length} dims`);
  }
  const file = await openFile(folder, name);
  try {
    const bytes = await readBytes(file, path, byteOffset, count * 4);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Float32Array.from({ length: count }, (_, index) => view.getFloat32(index * 4, true));
  } finally {
    await file.close();
  }
}

/** Makes `rope_scaling` of config.json. Throws CheckpointError for a scaling that no class of this library computes. */
export function ropeScaling(
  { metadata, path }: GgufFile,
  kind: string,
  sizes: RopeSizes,
): Readonly<Record<string, unknown>> {
  const type = metadata.get(`${kind}.rope.scaling.type`) ?? 'none';
  const factor = metadata.get(`${kind}.rope.scaling.factor`);
  if (sizes.factors !== null) {
    if (type !== 'none')
      throw refusal(path, `both ${ROPE_FACTORS} and the scaling ${String(type)}`);
    return { rope_scaling: llama3Scaling(path, sizes.factors, sizes) };
  }
  if (type === 'none') return {};
  if ((type !== 'linear' && type !== 'yarn') || typeof factor !== 'number') {
    throw refusal(
      path,
      `${kind}.rope.scaling.type ${JSON.stringify(type)} with the factor ${String(factor)}`,
    );
  }
  const original = metadata.get(`${kind}.rope.scaling.original_context_length`);
  const length = typeof original === 'number' ? { original_max_position_embeddings: original } : {};
  return { rope_scaling: { rope_type: type, factor, ...length } };
}

/** The numbers that all models have whose frequencies are scaled as those of Llama 3. */
const llama3 = { lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositionEmbeddings: 8192 };

/**
 * The scaling of Llama 3 that has these factors. Files have the factors alone, so its numbers are taken to be those that
 * all these models have, and the factors that follow are compared with those of the file.
 */
function llama3Scaling(
  path: string,
  factors: Float32Array,
  { theta, headDim }: RopeSizes,
): Readonly<Record<string, unknown>> {
  const factor = factors.at(-1) ?? 1;
  const rope: RopeParameters = { ropeType: 'llama3', ropeTheta: theta, factor, ...llama3 };
  const length = llama3.originalMaxPositionEmbeddings;
  const { frequencies: plain } = rotaryFrequencies(
    { ...rope, ropeType: 'default' },
    headDim,
    length,
  );
  const { frequencies: scaled } = rotaryFrequencies(rope, headDim, length);
  const isOurs =
    factors.length === plain.length &&
    factors.every((each, index) => {
      const expected = (plain[index] ?? 0) / (scaled[index] ?? 1);
      return Math.abs(each - expected) <= 1e-4 * expected;
    });
  if (!isOurs) throw refusal(path, `${ROPE_FACTORS} with other numbers than a scaling of Llama 3`);
  return {
    rope_type: 'llama3',
    factor,
    low_freq_factor: llama3.lowFreqFactor,
    high_freq_factor: llama3.highFreqFactor,
    original_max_position_embeddings: length,
  };
}

function refusal(path: string, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `to scale the rotary embeddings of ${path}`,
      found,
      todo: 'Use a file without scaling, with linear or yarn scaling, or the folder of Hugging Face, whose config.json says it',
    },
    { path },
  );
}
