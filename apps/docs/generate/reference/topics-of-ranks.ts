import { type Section, topic } from './topic.ts';

/** What several ranks use. */
export const topicsOfRanks: readonly Section[] = [
  {
    title: 'Strategies',
    topics: [
      topic(
        'parallelize',
        'parallelize, planFor, explain',
        'Makes a model train on many ranks by a strategy, and shows the plan.',
        /\/(parallelize|explain|planned-model|planned-model-with-loss|apply-plan|strategy-with-loss|compose)\./,
      ),
      topic(
        'planner/models',
        'Models for plans',
        'Descriptions of models, and their parameters, operations, activations and states.',
        /^planner\/(model|estimates)\//,
      ),
      topic(
        'planner/simulation',
        'Simulated steps and failures',
        'A step with stragglers and shared links, and how often to save checkpoints.',
        /^planner\/simulation\//,
      ),
      topic(
        'planner/calibration',
        'Constants from measured runs',
        'Counts of what a rank does, and the constants that predict its time and memory from them.',
        /^planner\/calibration\//,
      ),
      topic(
        'planner/costs',
        'Clusters and costs',
        'Devices and links, and what a layout takes on them: time, memory, energy and price.',
        /^planner\/(cluster|cost)\//,
      ),
      topic(
        'planner',
        'planTraining, auto',
        'Searches layouts before a run, predicts their time and memory, and chooses a strategy.',
        /^planner\//,
      ),
      topic(
        'verify',
        'verify: compare with one rank',
        'Runs the same steps on many ranks and on one, and names the first tensor that differs.',
        /shardwise\/[\w/]*verify\//,
      ),
      topic(
        'ddp',
        'ddp: distributed data parallel',
        'Each rank has the model and a part of the batch; gradients are averaged. Hooks that compress them; uneven inputs.',
        /\/distributed-data-parallel\//,
      ),
      topic(
        'diloco',
        'diloco and localSgd: few messages',
        'Ranks train alone for some updates and then agree: DiLoCo, streaming fragments, messages of few bits, robust aggregation.',
        /\/local-sgd\/|^shardwise\/together\//,
      ),
      topic(
        'fsdp',
        'fsdp: fully sharded data parallel',
        'Divides parameters, gradients and states over the ranks, and collects them layer by layer.',
        /strategies\/[\w/-]*\/(fsdp|construct-sharded|unit-names)\./,
      ),
      topic(
        'zero',
        'zero: divided optimizer states',
        'ZeRO 1, 2 and 3, the optimizer that divides its states, and states on the host.',
        /strategies\/[\w/-]*\/(zero|offloaded-optimizer)/,
      ),
      topic(
        'data-parallel',
        'dataParallel and metrics',
        'Data parallelism by a sum of gradients, and metrics of all ranks.',
        /\/(data-parallel|gather-for-metrics)\//,
      ),
      topic(
        'tensor-parallel/grids',
        'Tensor parallelism in 2, 2.5 and 3 dimensions',
        'Layers on grids of ranks.',
        /multi-dimensional\//,
      ),
      topic(
        'tensor-parallel/parameters',
        'Tensor parallelism: divided parameters and steps',
        'The parameters of divided layers, and the steps of their plans, for authors of styles.',
        /\/parameters\/(layer-placement|in-layer)\.|tensor-parallel\/(run-layer|shard-layers|parallel-style|styled-modules)\./,
      ),
      topic(
        'tensor-parallel',
        'tensorParallel: divided layers',
        'Divides layers by columns, rows, heads or vocabulary (Megatron).',
        /\/tensor-parallel\//,
      ),
      topic(
        'context-parallel',
        'contextParallel: divided sequences',
        'Each rank has a part of the tokens of each sequence: rings, Ulysses, and collected keys.',
        /\/context-parallel\//,
      ),
      topic(
        'expert-parallel',
        'expertParallel: divided experts',
        'Divides the experts of a mixture over the ranks.',
        /\/expert-parallel\//,
      ),
      topic(
        'parameter-servers/tables',
        'Parameter servers: tables of rows',
        'Tables that are too large for one rank: servers keep the rows, and workers read and update a few of them.',
        /parameter-server\/table\//,
      ),
      topic(
        'parameter-servers',
        'parameterServer: training without lock step',
        'Servers that keep the parameters, and their consistency.',
        /parameter-servers?\//,
      ),
      topic(
        'mixed-precision',
        'Mixed precision',
        'Computing in f16 or bf16 with parameters in f32.',
        /\/mixed-precision\//,
      ),
      topic(
        'distributed-tensor',
        'Distributed tensors',
        'Tensors that lie on several ranks, and operations on them.',
        /core\/[\w/]*distributed\/(distribute-tensor|count-collectives)\./,
      ),
      topic(
        'redistribution',
        'Layouts and redistribution',
        'How tensors lie on a mesh, and how they get into another layout.',
        /core\/[\w/]*distributed\/|visualize-sharding\/|layout\/layout\./,
      ),
      topic(
        'memory',
        'Memory of a plan',
        'What a rank keeps, by a plan or by the formulas of ZeRO.',
        /strategies\/[\w/]*memory\//,
      ),
      topic(
        'plan-steps/context',
        'Steps of plans: their context',
        'What a step of a plan is given when it is applied to a model.',
        /strategies\/[\w/]*plan\/plan-context\./,
      ),
      topic(
        'plan-steps',
        'Steps of plans',
        'Kinds of steps that a plan has, for authors of strategies.',
        /strategies\/([\w/]*plan\/|sharded\/(gather|page)\.|step-kinds)|strategies\/modules\/map-tensors\./,
      ),
    ],
  },
  {
    title: 'Pipelines',
    topics: [
      topic(
        'pipeline/costs',
        'Pipelines: costs of a model',
        'Counts or measures what each module of a model costs, so that stages take equally long.',
        /strategies\/pipeline\/costs\//,
      ),
      topic(
        'pipeline',
        'pipeline: stages on ranks',
        'Divides a model into stages, and runs microbatches through them.',
        /strategies\/([\w/]*pipeline\/|[\w/-]*\/(pipe|stepped-pipeline|optimistic-optimizer)\.)/,
      ),
      topic(
        'pipeline-schedule/costs',
        'Pipeline schedules: costs and drawings',
        'Schedules from costs, simulated and drawn.',
        /pipeline-schedule\/(automatic|simulation|views)\//,
      ),
      topic(
        'pipeline-schedule',
        'Pipeline schedules',
        'Schedules as data: made, read, written and checked.',
        /\/pipeline-schedule\//,
      ),
    ],
  },
  {
    title: 'Ranks and process groups',
    topics: [
      topic(
        'collectives',
        'Collectives of tensors',
        'allReduce, allGather, broadcast and others as operations of the graph, with gradients.',
        /tensor\/(collectives|row-exchange)\./,
      ),
      topic(
        'group-operations',
        'Collectives of objects and lists',
        'Objects and lists of buffers over a process group; barriers; groups of some ranks.',
        /collectives\/operations\//,
      ),
      topic(
        'mesh',
        'Meshes',
        'Ranks in a grid with named axes.',
        /collectives\/mesh\/|core\/mesh\.|spec\/mesh\./,
      ),
      topic(
        'process-groups/recorder',
        'Records of calls',
        'What a flight recorder keeps of each call of a group.',
        /\/recorder\//,
      ),
      topic(
        'process-groups/stores',
        'Stores and requests',
        'Key-value stores that ranks meet at, requests between processes, and tables of algorithms.',
        /collectives\/(stores|requests|wire|group\/selection)\//,
      ),
      topic(
        'process-groups/hosts',
        'Process groups of processes and hosts',
        'Groups over shared memory, TCP and MPI in Node.js.',
        /collectives\/(mpi|shm|transports\/tcp)\//,
      ),
      topic(
        'profiler/memory',
        'Memory of a rank over time',
        'Bytes by what they are for, the module and operation that made each block, and what lay in memory at the peak.',
        /shardwise\/memory\/|core\/realize\/memory\//,
      ),
      topic(
        'profiler/communication',
        'Communication of a rank',
        'Logs the calls of groups: how often, how large, how fast, how much computation hides, and who waits for whom.',
        /shardwise\/communication\/|collectives\/[\w/]*\/(observe-calls|call-observer)\./,
      ),
      topic(
        'process-groups/transports',
        'Transports and ports of pages',
        'Transports between ranks of one thread, through another process, and between workers of a page.',
        /^collectives\/(browser|transports)\//,
      ),
      topic(
        'process-groups',
        'Process groups',
        'Ranks as threads, in a page, or over a transport of your own.',
        /^collectives\//,
      ),
      topic(
        'profiler/flops',
        'Operations of a model and of a step',
        'Counts the floating-point operations of modules as DeepSpeed or PyTorch counts them, and takes their times.',
        /^core\/nn\/profile\//,
      ),
      topic(
        'profiler/steps',
        'Profiles of steps',
        'What each operation and module took in some steps, by a schedule as that of torch.profiler.',
        /^shardwise\/(profile\/|run-state\/rank-profile)/,
      ),
      topic(
        'rank',
        'setRank, timeline and statistics',
        'The rank of this thread without a run, and what happens on it.',
        /shardwise\/sinks\/|core\/(rank|timeline|timeline-event|v8-settings)\.|core\/paging\//,
      ),
    ],
  },
  {
    title: 'Checkpoints and files',
    topics: [
      topic(
        'checkpoints/sources',
        'Sources of tensors: folders and files',
        'Reads the parts of tensors that a rank keeps from folders of models, on disk or picked in a page.',
        /serialization\/(model-folder|disk-folder|picked-folder|tensor-source|safetensors-source|safetensors-index|read-runs|on-all-ranks|write-at)\./,
      ),
      topic(
        'checkpoints/folders',
        'Folders on servers: HTTP, S3, the Hub',
        'Opens a folder of a model by its address, and reads only the parts of its files that are needed.',
        /^core\/folders\//,
      ),
      topic(
        'checkpoints/files',
        'Single files: tensors, states, safetensors',
        'Saves and loads tensors or a state as one file, and reads and writes safetensors.',
        /checkpoint\/single-file\/|serialization\//,
      ),
      topic(
        'checkpoints',
        'Save and load',
        'Checkpoints of a run: saved by all ranks, and loaded on any number of them.',
        /^shardwise\/checkpoint\//,
      ),
    ],
  },
  {
    title: 'Programs of other libraries',
    topics: [
      topic(
        'compat/deepspeed',
        'DeepSpeed: initialize and its engine',
        'Trains by a configuration of DeepSpeed, with the calls of its engine.',
        /^compat\/(deepspeed|config|zero)\//,
      ),
      topic(
        'compat/accelerate',
        'accelerate: Accelerator',
        'Prepares a model, its optimizer and its data, and reads the file of `accelerate config`.',
        /^compat\/accelerate\//,
      ),
      topic(
        'compat/horovod',
        'Horovod: DistributedOptimizer',
        'Broadcasts parameters and states, and averages gradients.',
        /^compat\/horovod\//,
      ),
    ],
  },
  {
    title: 'Browsers and devices',
    topics: [
      topic(
        'browser',
        'Ranks in a page',
        'Starts ranks in workers of a page, with the checkpoints of a page.',
        /^shardwise\/browser\//,
      ),
      topic(
        'backends/onnx',
        'Nodes of ONNX',
        'Translates programs to nodes and files of ONNX.',
        /^backend-cpu\/.*onnx/,
      ),
      topic(
        'backends',
        'cpu, wasm, webgpu',
        'The devices that compute, and their options.',
        /^backend-/,
      ),
    ],
  },
  {
    title: 'Errors',
    topics: [
      topic(
        'error-classes',
        'Classes of errors',
        'The classes of all errors. [Errors](./generated/errors.md) lists codes, causes and remedies.',
        /\/(transport-)?errors\./,
      ),
    ],
  },
];
