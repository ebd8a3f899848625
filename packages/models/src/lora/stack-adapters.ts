import {
  ConfigError,
  convertArray,
  Generator,
  type HostArray,
  hostArray,
  type HostArrays,
  type Module,
  requireModule,
} from '@shardwise/core/extend';
import type { AdapterFiles } from './adapter-files.ts';
import { AdapterStack, LayerStack } from './adapter-stack.ts';
import { installAdapters, type NewAdapter, requireApart } from './add-lora.ts';
import { parseAdapter, type ParsedAdapter } from './load-adapter.ts';
import { isLoraLayer } from './lora-layer.ts';
import { scalingOf } from './lora-options.ts';

/** An adapter of a layer, with its number in the stack. */
interface StackedAdapter extends NewAdapter {
  readonly number: number;
  readonly name: string;
  readonly tensors: HostArrays;
}

/**
 * Gives a model several adapters in files of PEFT, by their names. Each token of a forward pass has one of them, or none:
 * what `withSelected` of the stack says, and none without it. An engine selects the adapter of each request. The model is
 * frozen, and its layers are replaced in place. Call it before `parallelize`. Throws ConfigError for no adapters, for a
 * model that has one, and for DoRA, modulesToSave and values that are not finite, and CheckpointError for damaged files
 * and for an adapter of another model, all before anything changes.
 */
export async function stackAdapters(
  model: Module,
  adapters: Readonly<Record<string, AdapterFiles>>,
): Promise<AdapterStack> {
  requireModule('stackAdapters', model);
  requireApart('stackAdapters', model);
  const names = Object.keys(adapters);
  const adapted = model.namedModules().find(([, module]) => isLoraLayer(module));
  if (names.length === 0) throw refused('no adapters', 'Give at least one');
  if (adapted !== undefined) {
    throw refused(`a model whose '${adapted[0]}' has an adapter`, 'Call mergeLora and removeLora');
  }
  const stack = new AdapterStack(model, names);
  const all = Object.entries(adapters).flatMap(([name, files], index): StackedAdapter[] => {
    const parsed = parseAdapter(model, files);
    requireStackable(name, parsed);
    const { tensors } = parsed;
    return parsed.adapters.map((adapter) => ({ ...adapter, name, number: index + 1, tensors }));
  });
  const layers = Map.groupBy(all, ({ path }) => path);
  const stacked = [...layers].map(([path, own]) => stackedLayer(path, own));
  installAdapters(
    model,
    stacked.map(({ adapter }) => adapter),
    { generator: new Generator(), modulesToSave: [], lengths: 'later' },
  );
  const modules = new Map(model.namedModules());
  for (const [path, own] of layers) {
    const layer = modules.get(path);
    if (layer === undefined || !isLoraLayer(layer)) continue;
    const owners = own.flatMap(({ number, settings }) => numbers(settings.rank, number));
    const scalings = new Float32Array(names.length + 1);
    for (const { number, settings } of own) scalings[number] = scalingOf(settings);
    layer.stack = new LayerStack(stack, Int32Array.from(owners), scalings);
  }
  const tensors = Object.fromEntries(stacked.flatMap(({ tensors: own }) => own));
  await model.loadStateDict(tensors, { strict: false });
  return stack;
}

/** The adapter that has the matrices of all adapters of a layer. */
function stackedLayer(
  path: string,
  own: readonly StackedAdapter[],
): { readonly adapter: NewAdapter; readonly tensors: readonly (readonly [string, HostArray])[] } {
  const [first] = own;
  if (first === undefined) throw new RangeError(`no adapter of ${path}`);
  const rank = own.reduce((sum, { settings }) => sum + settings.rank, 0);
  const [nameA, nameB] = [`${path}.lora_A.weight`, `${path}.lora_B.weight`];
  const settings = { rank, alpha: rank, dropout: 0, useRslora: false, useDora: false };
  return {
    adapter: { path, layer: first.layer, settings },
    tensors: [
      [nameA, joinedRows(own.map(({ tensors }) => matrixOf(tensors, nameA)))],
      [nameB, joinedColumns(own.map(({ tensors }) => matrixOf(tensors, nameB)))],
    ],
  };
}

/** A matrix in f32. Shape: [rows, columns]. */
interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float32Array;
}

function matrixOf(tensors: HostArrays, name: string): Matrix {
  const found = tensors[name];
  const wide = found === undefined ? undefined : convertArray(found, 'f32');
  if (wide === undefined) throw new RangeError(`no ${name}`);
  const [rows = 0, columns = 0] = wide.shape;
  // The bytes may lie anywhere in those of a file.
  return { rows, columns, values: new Float32Array(wide.bytes.slice().buffer) };
}

/** Shape: [R1, C], [R2, C], .. -> [R1 + R2 + .., C]. */
function joinedRows(matrices: readonly Matrix[]): HostArray {
  const columns = matrices[0]?.columns ?? 0;
  const rows = matrices.reduce((sum, matrix) => sum + matrix.rows, 0);
  const values = new Float32Array(rows * columns);
  let start = 0;
  for (const matrix of matrices) {
    values.set(matrix.values, start);
    start += matrix.values.length;
  }
  return hostArray('f32', [rows, columns], new Uint8Array(values.buffer));
}

/** Shape: [R, C1], [R, C2], .. -> [R, C1 + C2 + ..]. */
function joinedColumns(matrices: readonly Matrix[]): HostArray {
  const rows = matrices[0]?.rows ?? 0;
  const columns = matrices.reduce((sum, matrix) => sum + matrix.columns, 0);
  const values = new Float32Array(rows * columns);
  let start = 0;
  for (const { columns: own, values: from } of matrices) {
    for (let row = 0; row < rows; row++) {
      values.set(from.subarray(row * own, (row + 1) * own), row * columns + start);
    }
    start += own;
  }
  return hostArray('f32', [rows, columns], new Uint8Array(values.buffer));
}

function numbers(count: number, value: number): readonly number[] {
  return Array.from({ length: count }, () => value);
}

/** Throws ConfigError for what cannot be computed beside other adapters. */
function requireStackable(name: string, { config, adapters, tensors }: ParsedAdapter): void {
  const asked = `the adapter '${name}'`;
  if (config.useDora) throw refused('DoRA', 'Merge it into a model of its own', asked);
  if (config.modulesToSave.length > 0) {
    const found = `modules_to_save: ${config.modulesToSave.join(', ')}`;
    throw refused(found, 'Load it into a model of its own', asked);
  }
  for (const { path } of adapters) {
    for (const factor of ['lora_A', 'lora_B']) {
      // A term of 0 times infinity would reach the tokens of other adapters.
      const { values } = matrixOf(tensors, `${path}.${factor}.weight`);
      if (values.every((value) => Number.isFinite(value))) continue;
      throw refused(`numbers in ${path}.${factor} that are not finite`, 'Train it anew', asked);
    }
  }
}

function refused(found: string, todo: string, asked = 'stackAdapters'): ConfigError {
  return new ConfigError({ asked, found, todo });
}
