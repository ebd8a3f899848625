import {
  elementCount,
  type ModelFolder,
  safetensorsSource,
  type TensorSource,
} from '@shardwise/core/extend';
import { pretrainedFolderAt } from '@shardwise/core/node';
import { textTable } from '@shardwise/strategies';
import { formatBytes, formatCount } from '../text/format.ts';

/** The nodes of a job, and how its parameters are stored. */
export interface EstimateOptions {
  readonly nodes: number;
  readonly ranksPerNode: number;
  /** Half precision is 16 bits with copies in f32; single precision is f32 alone. */
  readonly precision: 'half' | 'single';
}

/** How many elements a model has. */
export interface ModelSize {
  readonly elements: number;
  /** The module with the most elements of its own, and their number. */
  readonly largestLayer: { readonly name: string; readonly elements: number };
}

/** The bytes of the states of a model under a strategy. */
export interface StatesRow {
  readonly strategy: string;
  /** The bytes of one rank, as in Rajbhandari et al. 2020: Ψ elements, N ranks, L elements of the largest layer. */
  readonly formula: string;
  /** Bytes on the device of each rank. */
  readonly deviceBytes: number;
  /** Bytes in the memory of each node, for states that are kept there. */
  readonly nodeBytes: number;
}

/** Bytes of an element: of its parameter, of its gradient, and of Adam's states with the copy in f32, if there is one. */
const elementBytes = {
  half: { parameter: 2, gradient: 2, optimizer: 12 },
  single: { parameter: 4, gradient: 4, optimizer: 8 },
} as const;

/** What a rank keeps whole, divides, and keeps on its node. */
interface Kept {
  readonly strategy: string;
  readonly whole: number;
  readonly divided: number;
  readonly onNode: number;
  /** Bytes of an element of the layer that runs, which is whole for that time. */
  readonly layer: number;
}

/** The size of a model by the shapes of its tensors. Tensors belong to the module that their names begin with. */
export function sizeOf(source: Pick<TensorSource, 'names' | 'get'>): ModelSize {
  const layers = new Map<string, number>();
  let elements = 0;
  for (const name of source.names) {
    const count = elementCount(source.get(name)?.shape ?? [0]);
    const layer = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : name;
    layers.set(layer, (layers.get(layer) ?? 0) + count);
    elements += count;
  }
  const [name, most] = [...layers].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0]);
  return { elements, largestLayer: { name, elements: most } };
}

/** The states of a model that trains with Adam, for each strategy that divides them among all ranks. */
export function estimateStates(size: ModelSize, options: EstimateOptions): readonly StatesRow[] {
  const { parameter, gradient, optimizer } = elementBytes[options.precision];
  const both = parameter + gradient;
  const none = { whole: 0, divided: 0, onNode: 0, layer: 0 };
  const rows: readonly Kept[] = [
    { ...none, strategy: 'ddp', whole: both + optimizer },
    { ...none, strategy: 'zero 1', whole: both, divided: optimizer },
    { ...none, strategy: 'zero 2', whole: parameter, divided: gradient + optimizer },
    { ...none, strategy: 'zero 3, fsdp', divided: both + optimizer, layer: both },
    { ...none, strategy: 'zero 3, states on host', divided: both, onNode: optimizer, layer: both },
    { ...none, strategy: 'fsdp, all on host', onNode: both + optimizer, layer: both },
  ];
  const ranks = options.nodes * options.ranksPerNode;
  const { elements, largestLayer } = size;
  return rows.map(({ strategy, whole, divided, onNode, layer }) => ({
    strategy,
    formula: [
      ...(whole > 0 ? [`${whole}Ψ`] : []),
      ...(divided > 0 ? [`${divided}Ψ/N`] : []),
      ...(layer > 0 ? [`${layer}L`] : []),
    ].join(' + '),
    deviceBytes: (whole + divided / ranks) * elements + layer * largestLayer.elements,
    nodeBytes: (onNode * elements) / options.nodes,
  }));
}

/** Bytes of an element by the dtypes in which weights are loaded. */
const loadedBytes = { f32: 4, 'bf16, f16': 2, int8: 1, int4: 0.5 } as const;

/**
 * Runs `shardwise estimate-memory` for a folder, an address or a name of the Hugging Face hub. Only the headers of the files
 * are read. Throws CheckpointError for a place without safetensors.
 */
export async function estimateMemory(
  place: string,
  { json, ...options }: EstimateOptions & { readonly json: boolean },
): Promise<void> {
  const size = sizeOf(await openSource(pretrainedFolderAt(place)));
  const states = estimateStates(size, options);
  const text = json ? JSON.stringify({ ...size, states }) : describe(place, size, states, options);
  process.stdout.write(`${text}\n`);
}

/** Opens the weights, in one file or in several, which `fromPretrained` looks for in this order, too. */
async function openSource(folder: ModelFolder): Promise<TensorSource> {
  const whole = await folder.open('model.safetensors');
  await whole?.close();
  const name = whole === undefined ? 'model.safetensors.index.json' : 'model.safetensors';
  return safetensorsSource(folder, name);
}

function describe(
  place: string,
  { elements, largestLayer }: ModelSize,
  states: readonly StatesRow[],
  { nodes, ranksPerNode, precision }: EstimateOptions,
): string {
  const loaded = Object.entries(loadedBytes).map(([dtype, bytes]) => [
    dtype,
    formatBytes(bytes * largestLayer.elements),
    formatBytes(bytes * elements),
  ]);
  const trained = states.map(({ strategy, formula, deviceBytes, nodeBytes }) => [
    strategy,
    formula,
    formatBytes(deviceBytes),
    nodeBytes === 0 ? '' : formatBytes(nodeBytes),
  ]);
  const dtype = precision === 'half' ? '16 bits with copies in f32' : 'f32';
  return [
    `${place}: ${formatCount(elements)} parameters, of which ${largestLayer.name} has ${formatCount(largestLayer.elements)}`,
    '',
    textTable([['dtype', 'largest layer', 'all weights'], ...loaded]),
    '',
    `Parameters, gradients and Adam's states in ${dtype}, with N = ${nodes} × ${ranksPerNode} ranks:`,
    textTable([['strategy', 'bytes of a rank', 'each rank', 'each node'], ...trained]),
    '',
    'Ψ: parameters of the model, L: of its largest layer, which is whole while it runs.',
    'Activations and buffers are not in these figures: dist.planMemory() counts them.',
  ].join('\n');
}
