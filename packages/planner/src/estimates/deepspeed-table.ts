import { estimateZero2, estimateZero3, type StatesEstimate } from '@shardwise/strategies';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';

/** A model and a cluster, in the terms of DeepSpeed's estimators. */
export interface DeepSpeedTableOptions {
  readonly elements: number;
  /** The elements of the module with the most parameters of its own. Stage 3 needs it. */
  readonly largestLayerElements?: number;
  readonly nodes?: number;
  readonly ranksPerNode?: number;
}

const tableRules: OptionRules<DeepSpeedTableOptions> = {
  elements: option.required(option.integer(1)),
  largestLayerElements: option.integer(1),
  nodes: option.integer(1),
  ranksPerNode: option.integer(1),
};

const GIB = 2 ** 30;

/** The table that DeepSpeed's estimate_zero2_model_states_mem_needs_all_cold prints. */
export function zero2Table(options: DeepSpeedTableOptions): string {
  checkOptions('zero2Table', options, tableRules);
  const { elements, nodes = 1, ranksPerNode = 1 } = options;
  const rows = [true, false].map((offload) =>
    row(
      estimateZero2({ elements, nodes, ranksPerNode, offload }),
      `offload_optimizer=${offload ? 'cpu ' : 'none'}`,
    ),
  );
  return [...heading(options, `${millions(elements)} total params.`), ...rows].join('\n');
}

/** The table that DeepSpeed's estimate_zero3_model_states_mem_needs_all_cold prints. */
export function zero3Table(
  options: DeepSpeedTableOptions & { largestLayerElements: number },
): string {
  checkOptions('zero3Table', options, tableRules);
  const { elements, largestLayerElements, nodes = 1, ranksPerNode = 1 } = options;
  const offloads = ['optimizer and parameters', 'optimizer', 'nothing'] as const;
  const rows = offloads.flatMap((offload) =>
    [true, false].map((constructSharded) => {
      const parameters = offload === 'optimizer and parameters' ? 'cpu ' : 'none';
      const optimizer = offload === 'nothing' ? 'none' : 'cpu ';
      return row(
        estimateZero3({
          elements,
          largestLayerElements,
          nodes,
          ranksPerNode,
          offload,
          constructSharded,
        }),
        `offload_param=${parameters}, offload_optimizer=${optimizer}, zero_init=${constructSharded ? 1 : 0}`,
      );
    }),
  );
  const size = `${millions(elements)} total params, ${millions(largestLayerElements)} largest layer params.`;
  return [...heading(options, size), ...rows].join('\n');
}

function heading({ nodes = 1, ranksPerNode = 1 }: DeepSpeedTableOptions, size: string): string[] {
  return [
    'Estimated memory needed for params, optim states and gradients for a:',
    `HW: Setup with ${plural(nodes, 'node')}, ${plural(ranksPerNode, 'GPU')} per node.`,
    `SW: Model with ${size}`,
    '  per CPU  |  per GPU |   Options',
  ];
}

function row({ hostBytes, deviceBytes }: StatesEstimate, name: string): string {
  return ` ${gib(hostBytes, 7)} | ${gib(deviceBytes, 6)} | ${name}`;
}

function gib(bytes: number, width: number): string {
  return `${(bytes / GIB).toFixed(2).padStart(width)}GB`;
}

function millions(elements: number): string {
  return `${Math.trunc(elements / 1e6)}M`;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
