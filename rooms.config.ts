import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

/** The rooms of core on which both the building and the running of a graph stand. */
const CORE_GROUND = [
  'spec',
  'base',
  'layout',
  'paging',
  'graph',
  'graph/ops',
  'print',
  'serialization',
  'folders',
  'realize',
  'realize/pending',
];

/**
 * For each package, its rooms and the rooms that each of them may import. A room is a folder of the package's sources
 * with all folders in it that are not rooms themselves. Files beside the rooms, such as entry points, belong to no room
 * and may be imported by all. `name/*` stands for a room and all rooms in it.
 *
 * Imports between rooms go one way. Rows of rooms that import each other are therefore refused. A folder that is in no
 * row is not checked.
 */
const ROOMS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  core: {
    ...inOrder([], ...CORE_GROUND),
    // What plans and runs a graph, and what builds one: neither imports the other.
    ...inOrder(
      CORE_GROUND,
      'realize/collect',
      'realize/signature',
      'realize/values',
      'realize/segments',
      'realize/steps',
      'realize/plan',
      'realize/sizes',
      'realize/cache',
      'realize/run',
      'realize/times',
      'realize/memory',
    ),
    ...inOrder(
      CORE_GROUND,
      'autograd',
      'tensor',
      'distributed',
      'linalg',
      'random',
      'data',
      'nn/construction',
      'nn/parameter',
      'nn/state',
      'nn/module',
      'nn/load',
      'nn/containers',
      'nn/functional',
      'nn/layers',
      'nn/convolution',
      'nn/pooling',
      'nn/norm',
      'nn/recurrent',
      'nn/attention',
      'nn/losses',
      'nn/experts',
      'nn/summary',
      'nn/profile',
      'nn',
      'optim',
    ),
  },
  strategies: {
    modules: [],
    agreement: ['modules'],
    parameters: [],
    plan: [],
    memory: ['parameters', 'plan'],
    'mixed-precision': ['modules', 'parameters'],
    'distributed-data-parallel': ['agreement', 'plan', 'mixed-precision'],
    'data-parallel': ['modules', 'agreement', 'plan', 'distributed-data-parallel'],
    'sharded/quantized': [],
    'sharded/parts': ['parameters', 'plan', 'sharded/quantized'],
    'sharded/units': [
      'modules',
      'agreement',
      'plan',
      'mixed-precision',
      'sharded/parts',
      'sharded/quantized',
    ],
    sharded: ['parameters', 'plan', 'mixed-precision', 'distributed-data-parallel', 'sharded/*'],
    'pipeline-schedule/actions': [],
    'pipeline-schedule/schedules': ['pipeline-schedule/actions'],
    'pipeline-schedule/check': ['pipeline-schedule/actions'],
    'pipeline-schedule/lowering': ['pipeline-schedule/actions', 'pipeline-schedule/check'],
    'pipeline-schedule/simulation': ['pipeline-schedule/actions', 'pipeline-schedule/check'],
    'pipeline-schedule': ['pipeline-schedule/actions', 'pipeline-schedule/schedules'],
    'pipeline-schedule/automatic': [
      'pipeline-schedule',
      'pipeline-schedule/actions',
      'pipeline-schedule/simulation',
    ],
    'pipeline-schedule/views': [
      'plan',
      'pipeline-schedule/actions',
      'pipeline-schedule/check',
      'pipeline-schedule/lowering',
      'pipeline-schedule/simulation',
    ],
    'local-sgd/aggregation': [],
    'local-sgd/messages': ['sharded/quantized', 'local-sgd/aggregation'],
    'local-sgd': ['plan', 'sharded/quantized', 'pipeline-schedule/automatic', 'local-sgd/*'],
    'pipeline/messages': [],
    'pipeline/stages': ['parameters', 'plan'],
    'pipeline/microbatches': ['modules', 'pipeline-schedule/*', 'pipeline/stages'],
    'pipeline/work': [
      'parameters',
      'pipeline-schedule/*',
      'pipeline/messages',
      'pipeline/microbatches',
    ],
    'pipeline/passes': [
      'modules',
      'agreement',
      'parameters',
      'pipeline-schedule/*',
      'pipeline/messages',
      'pipeline/microbatches',
      'pipeline/work',
    ],
    'pipeline/costs': [
      'plan',
      'pipeline-schedule/*',
      'pipeline/stages',
      'pipeline/microbatches',
      'pipeline/work',
    ],
    pipeline: [
      'parameters',
      'plan',
      'memory',
      'mixed-precision',
      'distributed-data-parallel',
      'pipeline-schedule/*',
      'pipeline/*',
    ],
    optimizers: ['distributed-data-parallel', 'pipeline/messages'],
    'tensor-parallel': [
      'modules',
      'agreement',
      'parameters',
      'plan',
      'mixed-precision',
      'pipeline-schedule/actions',
      'pipeline',
    ],
    'context-parallel': ['modules', 'plan', 'pipeline', 'tensor-parallel'],
    'expert-parallel': ['plan', 'distributed-data-parallel', 'tensor-parallel'],
    'visualize-sharding': [],
    'gather-for-metrics': [],
    // What loads strategies on demand, and the two classes that make a pipeline themselves, are here, too.
    apply: [
      'modules',
      'plan',
      'memory',
      'mixed-precision',
      'sharded',
      'pipeline',
      'pipeline/passes',
      'distributed-data-parallel',
    ],
  },
  data: {
    tokenizer: [],
    metrics: [],
    collate: ['tokenizer'],
    datasets: [],
    images: ['datasets'],
    streams: ['collate', 'datasets'],
    workers: ['streams'],
    files: ['tokenizer', 'collate', 'datasets', 'images'],
  },
  compat: {
    config: [],
    zero: [],
    deepspeed: ['config', 'zero'],
    accelerate: ['config'],
    horovod: [],
  },
  'parameter-server': {
    protocol: [],
    client: ['protocol'],
    table: ['protocol'],
    server: ['protocol', 'table'],
  },
  models: {
    quantized: [],
    model: ['quantized'],
    layers: ['model'],
    decoders: ['model', 'layers'],
    onnx: ['model'],
    encoders: ['model', 'layers'],
    vision: ['model', 'layers', 'encoders'],
    lora: ['model', 'layers', 'quantized'],
    weights: ['model', 'layers', 'quantized', 'lora'],
    generation: ['model', 'layers'],
  },
  serve: {
    blocks: [],
    sampling: [],
    scheduling: ['blocks'],
    cache: ['blocks', 'scheduling'],
    engine: ['sampling', 'scheduling', 'cache'],
    http: ['sampling', 'engine'],
  },
  planner: {
    model: [],
    cluster: [],
    estimates: [],
    cost: ['model', 'cluster'],
    search: ['model', 'cluster', 'cost'],
    simulation: ['model', 'cluster', 'cost'],
    calibration: ['model', 'cluster', 'cost'],
    files: ['model', 'cluster'],
    automatic: [],
  },
  'backend-cpu': {
    memory: [],
    program: [],
    lanes: ['program'],
    emit: ['memory', 'program'],
    'emit/x64': ['memory', 'program', 'lanes', 'emit'],
    'emit/arm64': ['memory', 'program', 'emit'],
    'emit/wasm': ['program', 'lanes'],
    'emit/onnx': ['program', 'lanes'],
    kernels: ['program', 'lanes', 'emit/wasm'],
    plan: ['memory', 'program', 'kernels', 'emit/wasm', 'emit/onnx'],
    'engines/loops': ['memory', 'lanes', 'emit/x64'],
    'engines/products': ['memory', 'program', 'lanes', 'emit/*', 'kernels', 'plan'],
    'engines/attention': ['memory', 'program', 'lanes', 'emit/wasm', 'engines/products'],
    'engines/onnx': ['memory', 'program', 'emit/onnx', 'kernels', 'plan'],
    'engines/plain': ['memory', 'program', 'emit/wasm', 'plan'],
    engines: ['memory', 'emit/x64', 'plan', 'engines/*'],
    run: ['memory', 'program', 'lanes', 'kernels', 'plan', 'engines/products'],
  },
  'backend-webgpu': {
    wgsl: [],
    device: [],
    program: ['wgsl'],
    emit: ['wgsl', 'program'],
    kernels: ['wgsl', 'program', 'emit'],
    plan: ['wgsl', 'device', 'program', 'emit', 'kernels'],
    run: ['device', 'program', 'emit', 'kernels', 'plan'],
    tune: ['device', 'program', 'kernels', 'plan', 'run'],
  },
  collectives: {
    call: [],
    native: [],
    reduce: [],
    wire: [],
    algorithms: ['reduce'],
    mesh: ['call'],
    operations: ['call'],
    recorder: ['call'],
    'shared-memory': ['call', 'reduce'],
    stores: ['call', 'wire'],
    'group/selection': ['call', 'reduce', 'algorithms'],
    group: ['call', 'reduce', 'algorithms', 'group/selection'],
    'group/measurement': ['call', 'group', 'group/selection'],
    shm: ['call', 'native', 'shared-memory'],
    threads: ['call', 'shared-memory'],
    transports: ['call', 'wire', 'shared-memory'],
    browser: ['shared-memory', 'group', 'threads', 'transports'],
    mpi: ['call', 'native', 'reduce', 'group', 'group/selection', 'shm'],
    requests: ['call', 'wire', 'shared-memory', 'shm'],
  },
  shardwise: {
    'checkpoint/format': [],
    environment: [],
    communication: [],
    text: [],
    accelerate: [],
    blame: ['text'],
    'checkpoint/places': ['checkpoint/format'],
    rendezvous: ['text'],
    'run-state': ['text'],
    'checkpoint/load': ['checkpoint/format', 'checkpoint/places'],
    'checkpoint/save': ['checkpoint/format', 'checkpoint/places'],
    relay: ['run-state'],
    report: ['text', 'run-state'],
    profile: ['text', 'run-state', 'report', 'terminal'],
    sinks: ['text', 'run-state'],
    memory: ['text', 'report'],
    terminal: ['text', 'run-state'],
    'checkpoint/single-file': ['checkpoint/format', 'checkpoint/places', 'checkpoint/load'],
    'doctor/host': ['text'],
    'launcher/load-errors': ['text'],
    'launcher/transports': ['rendezvous'],
    // What a launcher gives to a rank, and how it holds it. Threads and processes are the two forms of ranks.
    'launcher/ranks': ['rendezvous', 'run-state', 'terminal', 'launcher/transports'],
    'launcher/processes': ['run-state', 'launcher/ranks'],
    'launcher/threads': ['run-state', 'launcher/ranks'],
    'launcher/servers': ['text', 'checkpoint/places', 'launcher/ranks'],
    launcher: ['text', 'rendezvous', 'run-state', 'terminal', 'launcher/*'],
    // Ranks measure the links between them, so these files know what a rank is.
    'doctor/links': ['text', 'report', 'launcher/transports', 'rank', 'doctor/host'],
    doctor: ['text', 'terminal', 'doctor/*'],
    plan: ['text', 'run-state', 'report', 'profile', 'doctor/links'],
    top: ['text', 'rendezvous', 'run-state', 'report', 'terminal'],
    verify: ['environment'],
    cli: [
      'environment',
      'text',
      'accelerate',
      'blame',
      'doctor',
      'top',
      'verify',
      'plan',
      'checkpoint/*',
      'rendezvous',
      'run-state',
      'relay',
      'report',
      'profile',
      'sinks',
      'terminal',
      'launcher/*',
    ],
    groups: ['checkpoint/*', 'run-state', 'profile', 'verify', 'communication', 'memory'],
    rank: [
      'environment',
      'text',
      'blame',
      'checkpoint/*',
      'rendezvous',
      'run-state',
      'profile',
      'terminal',
      'launcher/*',
    ],
    browser: ['checkpoint/*', 'blame', 'run-state', 'report', 'launcher/ranks', 'groups', 'rank'],
  },
};

/** Rows for rooms of which each may import those below and those before it. */
function inOrder(
  below: readonly string[],
  ...rooms: readonly string[]
): Record<string, readonly string[]> {
  return Object.fromEntries(
    rooms.map((room, index) => [room, [...below, ...rooms.slice(0, index)]]),
  );
}

/** A lint rule for the files of one folder. */
export interface RoomRule {
  readonly files: string[];
  readonly pattern: { readonly regex: string; readonly message: string };
}

/** The rules by which lint refuses imports between rooms that are not in the table. */
export function roomRules(packageName: string): readonly RoomRule[] {
  const rows = ROOMS[packageName] ?? {};
  const sources = `packages/${packageName}/src`;
  requireOneWay(packageName, rows);
  const folders = foldersIn(join(import.meta.dirname, sources));
  return folders.flatMap((folder) => {
    const room = roomOf(folder, rows);
    const allowed = room === undefined ? undefined : rows[room];
    if (room === undefined || allowed === undefined) return [];
    const isAllowed = (other: string): boolean => {
      const target = roomOf(other, rows) ?? other;
      return target === room || allowed.some((name) => covers(name, target));
    };
    const refused = folders.filter((other) => !isAllowed(other));
    if (refused.length === 0) return [];
    // Imports are relative, so every folder has its own names for the others.
    const paths = refused.map((other) => {
      const path = relative(folder, other).replaceAll('\\', '/');
      return path.startsWith('.') ? path : `./${path}`;
    });
    const regex = `^(${paths.map((path) => path.replaceAll('.', '\\.')).join('|')})/[^/]+$`;
    const list = allowed.join(', ') || 'no other room';
    const message = `The room ${room} of packages/${packageName} may import only: ${list}.`;
    return [{ files: [`${sources}/${folder}/*.ts`], pattern: { regex, message } }];
  });
}

function foldersIn(sources: string): readonly string[] {
  return readdirSync(sources, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name, parentPath }) => relative(sources, join(parentPath, name)).replaceAll('\\', '/'))
    .toSorted();
}

/** The innermost room that contains a folder. */
function roomOf(folder: string, rows: object): string | undefined {
  const parts = folder.split('/');
  const names = parts.map((_, index) => parts.slice(0, parts.length - index).join('/'));
  return names.find((name) => Object.hasOwn(rows, name));
}

/** Whether a name of a row means a room. */
function covers(name: string, room: string): boolean {
  if (!name.endsWith('/*')) return name === room;
  const outer = name.slice(0, -2);
  return room === outer || room.startsWith(`${outer}/`);
}

function requireOneWay(
  packageName: string,
  rows: Readonly<Record<string, readonly string[]>>,
): void {
  const rooms = Object.keys(rows);
  const importsOf = (room: string): readonly string[] =>
    rooms.filter((other) => other !== room && rows[room]?.some((name) => covers(name, other)));
  const checked = new Set<string>();
  const visit = (room: string, above: readonly string[]): void => {
    if (checked.has(room)) return;
    if (above.includes(room)) {
      const circle = [...above.slice(above.indexOf(room)), room].join(' -> ');
      throw new Error(`rooms of packages/${packageName} import each other: ${circle}`);
    }
    for (const other of importsOf(room)) visit(other, [...above, room]);
    checked.add(room);
  };
  for (const room of rooms) visit(room, []);
}
