import { z } from 'zod';
import { checkHeads, count, number, parseOptions } from '../parse-options.ts';

/** Text that exists after `npm ci`: the declarations of the packages that the repository uses. */
const installedDeclarations = [
  'node_modules/typescript/**/*.d.ts',
  'node_modules/@types/**/*.d.ts',
];

const strategyNames = [
  'ddp',
  'zero1',
  'zero2',
  'zero3',
  'fsdp',
  'tp',
  'tp+fsdp',
  'pp',
  'pp+ddp',
  'cp',
  'cp+fsdp',
  'experts',
  'none',
] as const;

const schema = z
  .strictObject({
    strategy: z.enum(strategyNames).default('ddp'),
    /** The number of ranks that divide the layers under tp+fsdp and pp+ddp, and each sequence under cp+fsdp. */
    'inner-ranks': count.default(2),
    microbatches: count.default(4),
    precision: z.enum(['fastest', 'f32', 'bf16']).default('fastest'),
    /** The number of batches of a rank whose gradients are added up for one update. */
    accumulate: count.default(1),
    /** Whether the backward pass computes the activations of each block again, so that they take no memory. */
    checkpointing: z.enum(['blocks', 'none']).default('none'),
    data: z.array(z.string()).default(installedDeclarations),
    steps: count.default(600),
    'batch-size': count.default(8),
    'context-length': count.default(128),
    layers: count.default(4),
    heads: count.default(4),
    channels: count.default(256),
    experts: number.int().nonnegative().default(0),
    'learning-rate': number.positive().default(1e-3),
    'weight-decay': number.nonnegative().default(0.1),
    'warmup-steps': count.default(50),
    'validate-every': count.default(100),
    'checkpoint-every': count.default(300),
    'sample-bytes': number.int().nonnegative().default(300),
    seed: number.int().nonnegative().default(1),
  })
  .superRefine(({ heads, channels, strategy, experts }, context) => {
    const refuse = (option: string, message: string): void => {
      context.addIssue({ code: 'custom', path: [option], message });
    };
    checkHeads({ heads, channels }, context);
    if (strategy === 'experts' && experts === 0)
      refuse('experts', 'the strategy shards experts, and the model has none');
    if (experts > 0 && strategy.startsWith('pp'))
      refuse('experts', 'a pipeline does not add the loss that balances experts');
    if (experts > 0 && strategy.startsWith('tp'))
      refuse('experts', 'tensor parallelism of this model divides perceptrons, not experts');
  });

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that names each option that is wrong. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv, ['data']);
}
