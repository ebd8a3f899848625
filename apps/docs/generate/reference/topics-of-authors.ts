import { type Section, topic } from './topic.ts';

/** What authors of backends, transports and strategies use, and their tests. */
export const topicsOfAuthors: readonly Section[] = [
  {
    title: 'For authors',
    topics: [
      topic(
        'spec/backend',
        'Backend: the interface',
        'What a device implements, and the programs that it is given.',
        /(spec|base)\/(backend|sized)\.|place-lifetimes/,
      ),
      topic(
        'spec/operations-of-ranks',
        'Operations of the graph: collectives',
        'Collectives and transfers of the graph, with their parameters, and the types of values on an axis.',
        /spec\/op\.ts#(Axis|Collective|Graph|Transfer)/,
      ),
      topic(
        'spec/operations',
        'Operations of the graph',
        'The operations, with their parameters, shapes and types on the ranks.',
        /spec\/op\.|attention-dims|functional\/block/,
      ),
      topic(
        'spec/process-group',
        'ProcessGroup, Transport, Store: the interfaces',
        'What process groups, transports, stores, samplers and parameter servers implement.',
        /spec\/(process-group|transport|store|sampler|requests)\./,
      ),
      topic(
        'spec/strategy',
        'Strategy: the interface',
        'Strategies, plans, specs of models and layouts.',
        /spec\/(strategy|layout)\./,
      ),
      topic(
        'spec/options',
        'Options: rules and checks',
        'Rules for options, and the checks that throw ConfigError.',
        /check-options|option-rules|with-defaults|check-arguments|check-calls/,
      ),
      topic(
        'extend/node',
        'Nodes of the graph',
        'A value of the graph: its operation, inputs, shape and owner.',
        /graph\/(node|storage|ownership|call-site)\./,
      ),
      topic(
        'extend/graph',
        'The graph',
        'Nodes, call sites, and the order of collectives in a program.',
        /core\/(graph|autograd|realize)\//,
      ),
      topic(
        'extend/saved-data',
        'Checks of saved data',
        'Checks for data that was read from a file, with errors that name the place.',
        /core\/saved-data/,
      ),
      topic(
        'extend/gradient',
        'Gradients and updates',
        'Gradients of parameters, how they are reduced, and updates that others carry out.',
        /core\/tensor\/(gradient|gradient-sum|updater|scale-gradient|declare-axis-types)\./,
      ),
      topic(
        'extend/tensor',
        'Tensors and helpers',
        'Gradients, updates, shapes and other helpers.',
        /core\/(tensor|print|ambient|spec|base|[\w-]*check|[\w-]*saved-data)|core\/(shape|hash)\./,
      ),
      topic(
        'extend/layout',
        'Parts of tensors',
        'Which part of a tensor a rank has, by its layout.',
        /core\/layout\//,
      ),
      topic('extend/nn', 'Modules', 'Parts of modules that strategies use.', /core\/nn\//),
      topic(
        'wasm-assembler/memory',
        'WebAssembly memory and modules',
        'Shared memories and their limits, encoded modules, and kernels that run.',
        /^wasm-assembler\/(create-shared-memory|encode-module|instantiate-kernels|memory-limits)\./,
      ),
      topic(
        'wasm-assembler',
        'WebAssembly kernels',
        'Kernels from expressions of TypeScript.',
        /^wasm-assembler\//,
      ),
    ],
  },
  {
    title: 'Testing',
    topics: [
      topic(
        'testing/group-suites',
        'Contract suites of process groups',
        'The tests that every process group, transport, store, mesh and sampler passes.',
        /^testing\/contracts\/(process-group|transport|store|mesh|sampler)/,
      ),
      topic(
        'testing/cases',
        'Cases of backends',
        'Programs and values from which the tests of backends are made.',
        /^testing\/contracts\/backend\//,
      ),
      topic(
        'testing/suites',
        'Contract suites of backends and strategies',
        'The tests that every backend and strategy passes, and how suites run.',
        /^testing\/(contracts|suite|vitest)/,
      ),
      topic(
        'testing/ranks',
        'Ranks, hosts and browsers of tests',
        'Starts ranks, hosts and browsers for a test.',
        /^testing\/(ranks|hosts)/,
      ),
      topic(
        'testing',
        'Comparisons and the interpreter',
        'Compares tensors and gradients, and computes by definition.',
        /^testing\//,
      ),
    ],
  },
];
