import {
  checkOptions,
  convertArray,
  currentSession,
  dtypes,
  elementCount,
  formatShape,
  type HostArray,
  hostArray,
  inputNode,
  type LoadOptions,
  type LoadReport,
  loadRules,
  type Module,
  noGrad,
  sameShape,
  stateMismatch,
  Tensor,
} from '@shardwise/core';
import type { Checkpoint } from './load-checkpoint.ts';
import { modelTensors } from './model-tensors.ts';
import { damaged, type PieceFiles } from './piece-files.ts';
import type { StoredTensor } from './state-file.ts';

/** What is copied to the device at a time. */
const BATCH_BYTES = 64 * 1024 * 1024;

interface Target {
  readonly tensor: Tensor;
  readonly stored: StoredTensor;
}

/**
 * Overwrites a model's parameters and buffers, in place, whatever strategy has been applied to it:
 * each rank reads the parts that it keeps. A collective for models whose states are sharded. Throws
 * CheckpointError, before anything changes, that lists missing and unexpected names (where strict)
 * and differing shapes together, and for a damaged file.
 */
export async function loadModel(
  checkpoint: Checkpoint,
  model: Module,
  options: LoadOptions = {},
): Promise<LoadReport> {
  checkOptions('loadModel', options, loadRules);
  const { strict = true } = options;
  const { targets, ...report } = match(checkpoint, model);
  const { missing, unexpected, different } = report;
  if (different.length > 0 || (strict && missing.length + unexpected.length > 0)) {
    throw stateMismatch(
      `to load ${checkpoint.directory} into ${model.constructor.name}`,
      strict ? report : { different },
      'Load the checkpoint of a model of the same structure, or pass { strict: false } where only names differ',
    );
  }
  await using files = checkpoint.model.open();
  const arrays: { readonly tensor: Tensor; readonly array: HostArray }[] = [];
  for (const target of targets) {
    const { dtype } = target.tensor;
    const array = convertArray(await readHeld(files, target.stored, target.tensor), dtype);
    if (array === undefined) {
      throw damaged(
        checkpoint.directory,
        `${target.stored.name} has numbers that ${dtype} has not`,
      );
    }
    arrays.push({ tensor: target.tensor, array });
  }
  let waitingBytes = 0;
  for (const { tensor, array } of arrays) {
    const { shape, dtype, bytes } = array;
    const value = new Tensor(inputNode(shape, dtype, { kind: 'host', bytes }));
    noGrad(() => tensor.assign(value));
    waitingBytes += bytes.byteLength;
    if (waitingBytes < BATCH_BYTES) continue;
    await currentSession().realize([]);
    waitingBytes = 0;
  }
  await currentSession().realize([]);
  return { missing, unexpected };
}

/** What this rank keeps of a tensor that lies as `tensor`, with zeros for padding. Shape: -> tensor's. */
export async function readHeld(
  files: PieceFiles,
  stored: StoredTensor,
  { shape, extent }: Pick<Tensor, 'shape' | 'extent'>,
): Promise<HostArray> {
  const { dtype } = stored;
  const held = await files.readRegions(stored, extent.regions);
  const byteLength = elementCount(shape) * dtypes[dtype].bytes;
  if (held.byteLength === byteLength) return hostArray(dtype, shape, held);
  const bytes = new Uint8Array(byteLength);
  bytes.set(held);
  return hostArray(dtype, shape, bytes);
}

function match(
  { model: stored, aliases }: Checkpoint,
  model: Module,
): {
  readonly targets: readonly Target[];
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
  readonly different: readonly string[];
} {
  const targets: Target[] = [];
  const missing: string[] = [];
  const different: string[] = [];
  const used = new Set<string>();
  for (const { names, tensor } of modelTensors(model)) {
    const found = names
      .map((name) => stored.get(name) ?? stored.get(aliases.get(name) ?? ''))
      .find((each) => each !== undefined);
    if (found === undefined) {
      missing.push(names[0]);
      continue;
    }
    used.add(found.name);
    const { shape } = tensor.extent;
    if (!sameShape(found.shape, shape)) {
      const shapes = `shape ${formatShape(found.shape)}, not ${formatShape(shape)}`;
      different.push(`${names[0]} (${shapes})`);
    } else if (!converts(found, tensor)) {
      different.push(`${names[0]} (${found.dtype}, not ${tensor.dtype})`);
    } else targets.push({ tensor, stored: found });
  }
  return {
    targets,
    missing,
    unexpected: stored.names.filter((name) => !used.has(name)),
    different,
  };
}

function converts({ dtype }: StoredTensor, tensor: Tensor): boolean {
  return convertArray({ dtype, shape: [0], bytes: new Uint8Array() }, tensor.dtype) !== undefined;
}
