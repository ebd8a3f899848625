import { type Section, topic } from './topic.ts';

/** Files of modules, which are not those of functions in `nn/functional` with the same names. */
const layer = (names: string): RegExp =>
  new RegExp(String.raw`core/nn/(?!functional/)([\w-]+/)*(${names})\.`);

/** What one rank uses: tensors, networks, optimizers and data. */
export const topicsOfTraining: readonly Section[] = [
  {
    title: 'Start',
    topics: [
      topic(
        'init',
        'init: join a run',
        'Makes a program a rank of a run. It returns the rank, the world size, the group and the mesh.',
        /^shardwise\/(rank|run-state)\//,
      ),
    ],
  },
  {
    title: 'Tensors',
    topics: [
      topic(
        'tensor',
        'Tensor',
        'The class of all tensors, with an overview of its methods.',
        /tensor\/tensor\.ts#\w+$/,
      ),
      topic(
        'tensor/element-wise',
        'Tensor: element-wise operations',
        'Arithmetic, comparisons, rounding and activations of each element, such as `add`, `exp` and `relu`.',
        /(unary|binary)-methods|tensor\/arithmetic\./,
      ),
      topic(
        'tensor/reductions',
        'Tensor: reductions and sorting',
        'Sums, means, norms, extremes, sorting, cumulative sums and softmax along dims.',
        /reduction-methods|tensor\/reduc/,
      ),
      topic(
        'tensor/shapes',
        'Tensor: shapes',
        'Methods that reshape, reorder, split and repeat: `reshape` (PyTorch’s `view`), `transpose`, `chunk`.',
        /movement-methods/,
      ),
      topic(
        'tensor/indexing',
        'Tensor: products and indexing',
        'Matrix products, and reading or writing elements by their indices.',
        /indexing-methods|tensor\/(indexing|products)\//,
      ),
      topic(
        'tensor/state',
        'Tensor: values, gradients and memory',
        'Reading values (`item`, `data`), `backward`, gradients, assignment and memory.',
        /tensor\/(handle|tensor)\./,
      ),
      topic(
        'create',
        'Create tensors',
        'Tensors from arrays, constants and ranges, and how tensors are joined.',
        /tensor\/(create(-ranges)?|dynamic|from-host-array|host-data)\./,
      ),
      topic(
        'random',
        'Random numbers',
        'Seeds, generators and random tensors.',
        /create-random|random\/(keys|generator)/,
      ),
      topic(
        'autograd',
        'Gradients',
        'Gradients as values, functions with own gradients, and regions without gradients or with fewer bits.',
        /graph\/(autocast|create-node)\.|activation-bytes|tensor\/(gradients|custom-function)\./,
      ),
      topic('linalg', 'Linear algebra', 'Decompositions and solutions of matrices.', /\/linalg\//),
      topic(
        'dtypes',
        'Types of elements',
        'The dtypes of tensors, and shapes.',
        /\/dtype(-name|-kind)?\./,
      ),
    ],
  },
  {
    title: 'Networks (nn)',
    topics: [
      topic(
        'nn/module',
        'Module',
        'The base class of all layers and models, its hooks and state dicts.',
        layer('module|forward-hooks|backward-hooks|state-dict'),
      ),
      topic(
        'nn/containers',
        'Containers: Sequential, ModuleList, ModuleDict',
        'Modules that hold other modules or parameters.',
        layer('sequential|module-list|module-dict|parameter-list'),
      ),
      topic(
        'nn/parameter',
        'Parameter and buffers',
        'The tensors of a module that train, and those that do not.',
        layer('parameter|constructions|divided-parameter|initial-part'),
      ),
      topic(
        'nn/linear',
        'Linear, Embedding, Dropout',
        'Layers of one matrix or none: Linear, Embedding, Dropout, Flatten and Identity.',
        layer('linear|embedding|dropout|flatten|identity'),
      ),
      topic(
        'nn/convolution',
        'Convolutions',
        'Conv1d, Conv2d, Conv3d and ConvTranspose2d.',
        layer(String.raw`conv-?(\dd|transpose\w*)`),
      ),
      topic(
        'nn/pooling',
        'Pooling',
        'Maxima and means of windows.',
        layer(String.raw`[\w-]*pool\w*`),
      ),
      topic(
        'nn/normalization',
        'Normalization',
        'Batch, layer, group, instance and RMS norms; SyncBatchNorm for several ranks.',
        layer(String.raw`[\w-]*norm\w*`),
      ),
      topic(
        'nn/activations',
        'Activations',
        'ReLU, GELU, SiLU and others as modules.',
        layer('activations'),
      ),
      topic(
        'nn/recurrent',
        'LSTM and GRU',
        'Recurrent layers for sequences.',
        layer('lstm|gru|recurrent'),
      ),
      topic(
        'nn/attention',
        'Attention and Transformers',
        'Attention with several heads, and layers of Transformers.',
        layer(String.raw`multihead-attention|transformer[\w-]*`),
      ),
      topic(
        'nn/experts/gates',
        'Mixture of experts: gates',
        'Which experts a token goes to.',
        /nn\/experts\/([\w-]*gate|limit-routes)\./,
      ),
      topic(
        'nn/experts',
        'Mixture of experts',
        'Layers of experts, balance losses and statistics of routers.',
        /nn\/experts\//,
      ),
      topic(
        'nn/losses',
        'Losses',
        'Losses as modules, and the scale of losses that are means over tokens.',
        layer('losses|token-loss-scale'),
      ),
      topic(
        'nn/checkpoint',
        'Activation checkpointing',
        'Recomputes activations in the backward pass instead of keeping them.',
        /core\/nn\/(checkpoint|tiled)\.|core\/recomputation\//,
      ),
      topic(
        'nn/summary',
        'Summary of a model',
        'Layers, shapes, parameters and operations of a model.',
        /\/summary\//,
      ),
      topic(
        'nn/functional-losses',
        'nn.functional: losses',
        'Losses as functions, such as `crossEntropy` and `mseLoss`.',
        /functional\/(.*loss|.*entropy|kl-div|reduction)/,
      ),
      topic(
        'nn/functional',
        'nn.functional: layers',
        'Layers as functions without parameters of their own, such as `conv2d` and `scaledDotProductAttention`.',
        /nn\/functional\/(?!block)/,
      ),
      topic('nn/init', 'nn.init: initial values', 'How parameters begin.', /random\/init\./),
    ],
  },
  {
    title: 'Optimizers (optim)',
    topics: [
      topic(
        'optim/schedulers',
        'Learning rate schedulers',
        'How learning rates change from step to step: warm-up, cosine, one cycle, plateau.',
        /\/(learning-rate-scheduler|one-cycle-scheduler|reduce-lr-on-plateau|schedules|swa-lr)\./,
      ),
      topic(
        'optim/gradients',
        'Gradient clipping and loss scaling',
        'Limits for gradients (`clipGradNorm`, `clipGradValue`), and scales for losses of few bits.',
        /\/(clip-[\w-]+|dynamic-loss-scaler|loss-scaler)\./,
      ),
      topic(
        'optim/averaging',
        'Averaged weights',
        'Means of weights over steps (EMA, SWA), and batch norms for them.',
        /\/(averaged-weights|update-batch-norm)\./,
      ),
      topic(
        'optim/optimizer',
        'Optimizer',
        'The base class of optimizers, parameter groups and state dicts.',
        /\/optim\/[\w/]*(optimizer|param-group|maximize|parameter-state|saved-arrays|state-type|scalar|sum-over-parts)\./,
      ),
      topic(
        'optim/optimizers',
        'Optimizers',
        'AdamW, SGD, Lion, Muon and the other rules of updates.',
        /\/optim\//,
      ),
    ],
  },
  {
    title: 'Models',
    topics: [
      topic(
        'models/decoders/gemma',
        'Gemma 2 and 3',
        'Decoders with bounded scores, and with windows in most layers.',
        /^models\/decoders\/gemma/,
      ),
      topic(
        'models/decoders',
        'Decoders: GPT-2, Llama, Qwen, Mistral',
        'Language models with the names, the layouts and the configs of Hugging Face.',
        /^models\/decoders\//,
      ),
      topic(
        'models/encoders/roberta',
        'RoBERTa',
        'An encoder with heads for masked words, sequences and tokens.',
        /^models\/encoders\/roberta/,
      ),
      topic(
        'models/encoders',
        'Encoders: BERT',
        'Encoders with heads for masked words, sequences and tokens, and embeddings of sentences.',
        /^models\/encoders\//,
      ),
      topic(
        'models/vision',
        'Models of images: ViT and ResNet',
        'Classifiers of images.',
        /^models\/vision\//,
      ),
      topic(
        'models/weights',
        'Load and save weights of Hugging Face',
        'Folders of safetensors, files of torch.save and GGUF, of which each rank reads and writes its part.',
        /^models\/weights\//,
      ),
      topic(
        'models/lora',
        'LoRA: adapters of low rank',
        'Trains a few weights beside frozen ones, and reads and writes the files of PEFT.',
        /^models\/lora\//,
      ),
      topic(
        'models/generation',
        'Generate text',
        'Greedy text, draws, beams and streams, with a cache of keys and values.',
        /^models\/generation\//,
      ),
      topic(
        'models/onnx',
        'Files for other runtimes',
        'Files of ONNX, with batches and sequences of any size.',
        /^models\/onnx\//,
      ),
      topic(
        'models',
        'Configs and base classes of models',
        'The choice of a class by `model_type`, configs, what a call may say, and what your own models extend.',
        /^models\/(model\/|layers\/|architectures\.)/,
      ),
    ],
  },
  {
    title: 'Serving',
    topics: [
      topic(
        'serve/http',
        'Serve over HTTP',
        "A server of OpenAI's interface, with its limits, and one address for several of them.",
        /^serve\/(http|replicas)\//,
      ),
      topic(
        'serve/engine',
        'Engines',
        'Requests that are answered together, and how their tokens are chosen.',
        /^serve\/(constraints|engine|sampling|speculation)\//,
      ),
      topic(
        'serve/blocks',
        'Blocks and rolling batches',
        'Where keys and values lie, and what each step computes.',
        /^serve\/(blocks|cache|scheduling)\//,
      ),
    ],
  },
  {
    title: 'Data',
    topics: [
      topic(
        'data/loader',
        'DataLoader',
        'Batches of a dataset, in workers if wanted.',
        /\/(data-loader|loader-state|collate|worker-dataset)\./,
      ),
      topic(
        'data/samplers',
        'Samplers',
        'Which samples a rank gets, in which order.',
        /^core\/[\w/-]*sampler\./,
      ),
      topic(
        'data/datasets',
        'Datasets',
        'Datasets of arrays, texts and iterables; splits and arrays.',
        /core\/data\//,
      ),
      topic(
        'data/tokenizers',
        'Tokenizers',
        'Texts as tokens and back, batches of them, and chat templates.',
        /^data\/(tokenizer\/|files\/load-tokenizer)/,
      ),
      topic(
        'data/collate',
        'Batches of texts',
        'Padding, masked and causal language models, instructions, and documents that are packed into rows.',
        /^data\/collate\//,
      ),
      topic(
        'data/metrics',
        'Metrics',
        'Loss, perplexity, accuracy, F1 and the area under a curve, of the rows of all ranks.',
        /^data\/metrics\//,
      ),
      topic(
        'data/images',
        'Images',
        'Folders of images, decoded and processed as models take them.',
        /^data\/(images\/|files\/(decode-image|image-folder|load-image-processor))/,
      ),
      topic(
        'data/files',
        'Data sets of files',
        'Tokens, lines, JSON, CSV, Parquet and tar shards, whose rows are read by their index.',
        /^data\/(datasets|files)\//,
      ),
      topic(
        'data/streams',
        'Streams',
        'Mix, filter, shuffle and batch items, share them out among ranks, and continue on another number of ranks.',
        /^data\/(streams|workers)\//,
      ),
    ],
  },
];
