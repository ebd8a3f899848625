import {
  type DimRange,
  checkOptions,
  convertArray,
  currentSession,
  formatShape,
  type HostArray,
  inputNode,
  isHeldAt,
  type LoadOptions,
  type LoadReport,
  loadRules,
  type Module,
  noGrad,
  ownPlace,
  requireFit,
  requireModule,
  sameShape,
  Tensor,
} from '@shardwise/core/extend';
import { requireCheckpoint, type Checkpoint } from './open-checkpoint.ts';
import { modelTensors } from '../format/model-tensors.ts';
import { damaged } from './chunk-files.ts';
import { readHeld } from './read-held.ts';
import type { StoredTensor } from '../format/index-file.ts';
import { describeVarying, placesToLoad, shapeOf } from '../format/varying.ts';

/** The number of bytes that are copied to the device at a time. */
const BATCH_BYTES = 64 * 1024 * 1024;

interface Target {
  readonly tensor: Tensor;
  readonly stored: StoredTensor;
  /** The ranks whose values are loaded, as ranges of the varying dims. Of several values the mean is loaded. */
  readonly places: readonly (readonly DimRange[])[];
}

/**
 * Overwrites a model's parameters and buffers in place, whatever strategy is applied to it. Each rank reads the parts
 * that it keeps, and its own values of tensors that vary over ranks. It is a collective for models whose states are
 * sharded. Throws CheckpointError for a damaged file. Before anything changes, it throws a CheckpointError that lists
 * all missing and unexpected names (if strict), all different shapes and dtypes, and all tensors that hold only values
 * of other ranks.
 */
export async function loadModel(
  checkpoint: Checkpoint,
  model: Module,
  options: LoadOptions = {},
): Promise<LoadReport> {
  requireCheckpoint('loadModel', checkpoint);
  requireModule('loadModel', model);
  checkOptions('loadModel', options, loadRules);
  const { strict = true } = options;
  const { targets, ...report } = match(checkpoint, model);
  const { missing, unexpected } = report;
  requireFit(`to load ${checkpoint.directory} into ${model.constructor.name}`, report, {
    strict,
    fitting: targets.length,
  });
  await using files = checkpoint.model.open();
  const arrays: { readonly tensor: Tensor; readonly array: HostArray }[] = [];
  for (const target of targets) {
    const { part } = target.tensor;
    if (!isHeldAt(part.layout, ownPlace)) continue;
    const { dtype } = part;
    const held = await readHeld(files, target.stored, part, target.places);
    const array = convertArray(held, dtype);
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
    noGrad(() => tensor.part.assign(value));
    waitingBytes += bytes.byteLength;
    if (waitingBytes < BATCH_BYTES) continue;
    await currentSession().realize([]);
    waitingBytes = 0;
  }
  await currentSession().realize([]);
  return { missing, unexpected };
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
    const { wholeShape: shape } = tensor.part;
    const places = placesToLoad(found, tensor.part);
    if (!sameShape(shapeOf(found), shape)) {
      const shapes = `shape ${formatShape(shapeOf(found))}, not ${formatShape(shape)}`;
      different.push(`${names[0]} (${shapes})`);
    } else if (!converts(found, tensor)) {
      different.push(`${names[0]} (${found.dtype}, not ${tensor.dtype})`);
    } else if (places === undefined) {
      different.push(`${names[0]} (${describeVarying(found)})`);
    } else targets.push({ tensor, stored: found, places });
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
