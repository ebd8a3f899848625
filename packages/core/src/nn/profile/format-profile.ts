import type { ModelProfile, ModuleProfile } from './model-profile.ts';
import { type Phase, phases } from './graph-places.ts';

/** What is printed of a profile. The names are those of DeepSpeed. */
export interface FormatProfileOptions {
  /** The depth of the modules that are printed. -1: all. Default: -1. */
  readonly moduleDepth?: number;
  /** How many classes of modules are listed for each depth. Default: 1. */
  readonly topModules?: number;
  /** Whether the tree of modules is printed. Default: true. */
  readonly detailed?: boolean;
}

const NAME_COLUMNS = 70;
const RULE_COLUMNS = 90;

/** Prints a profile in the order of DeepSpeed's: the totals, the classes of modules by depth, and the tree. */
export function formatProfile(profile: ModelProfile, options: FormatProfileOptions = {}): string {
  const { moduleDepth = -1, topModules = 1, detailed = true } = options;
  const title = ' Shardwise FLOPs profile ';
  const side = '-'.repeat((RULE_COLUMNS - title.length) >> 1);
  return [
    `${side}${title}${side}`,
    'The figures are those of this rank. The graph is counted as it ran; backward passes and recomputation are not estimated.',
    '',
    ...totals(profile).map(([name, value]) => `${`${name}:`.padEnd(NAME_COLUMNS)}${value}`),
    '',
    ...byDepth(profile.modules, moduleDepth, topModules),
    ...(detailed ? ['', ...tree(profile, moduleDepth)] : []),
    '-'.repeat(2 * side.length + title.length),
  ].join('\n');
}

const phaseNames: Readonly<Record<Phase, string>> = {
  forward: 'fwd',
  backward: 'bwd',
  recomputation: 'recomputation',
  optimizer: 'optimizer',
};

function totals(profile: ModelProfile): readonly (readonly [name: string, value: string])[] {
  const [model] = profile.modules;
  const { work, forwardMs, backwardMs, totalMs } = profile;
  const backwardFlops = work.backward.flops + work.recomputation.flops;
  return [
    ['world size', String(profile.worldSize)],
    ['params of the model', scaled(profile.params, '')],
    ['params per rank', scaled(model?.paramsOfRank ?? 0, '')],
    ['fwd MACs per rank', scaled(work.forward.macs, 'MACs')],
    ...phases.map(
      (phase) => [`${phaseNames[phase]} flops per rank`, scaled(work[phase].flops, '')] as const,
    ),
    ...timed('fwd', forwardMs, work.forward.flops),
    ...timed('bwd', backwardMs, backwardFlops),
    ...timed(
      'iter',
      totalMs,
      phases.reduce((sum, phase) => sum + work[phase].flops, 0),
    ),
  ];
}

function timed(
  name: string,
  ms: number | undefined,
  flops: number,
): readonly (readonly [string, string])[] {
  if (ms === undefined) return [];
  return [
    [`${name} latency`, formatTime(ms)],
    [`${name} FLOPS per rank = flops / latency`, speed(flops, ms)],
  ];
}

/** The classes of modules that have most of each figure, for each depth. A module counts with all below it. */
function byDepth(modules: readonly ModuleProfile[], depth: number, top: number): string[] {
  const depths = Map.groupBy(modules, depthOf);
  const deepest = Math.max(...depths.keys());
  const last = depth < 0 ? deepest : Math.min(depth, deepest);
  const lines = [`Top ${top} modules in terms of params, MACs or fwd latency at different depths:`];
  for (let at = 0; at <= last; at++) {
    const classes = Map.groupBy(depths.get(at) ?? [], ({ type }) => type);
    const best = (figure: (module: ModuleProfile) => number, format: (sum: number) => string) =>
      [...classes]
        .map(([type, all]) => [type, all.reduce((sum, each) => sum + figure(each), 0)] as const)
        .toSorted((a, b) => b[1] - a[1])
        .slice(0, top)
        .map(([type, sum]) => `'${type}': '${format(sum)}'`)
        .join(', ');
    lines.push(`depth ${at}:`);
    lines.push(
      `    params      - {${best(
        ({ params }) => params,
        (sum) => scaled(sum, ''),
      )}}`,
    );
    lines.push(
      `    MACs        - {${best(
        ({ work }) => work.forward.macs,
        (sum) => scaled(sum, 'MACs'),
      )}}`,
    );
    if (modules[0]?.forwardMs === undefined) continue;
    lines.push(`    fwd latency - {${best(({ forwardMs = 0 }) => forwardMs, formatTime)}}`);
  }
  return lines;
}

/** The tree of modules, as DeepSpeed prints it: with the figures before the settings of each module. */
function tree({ modules }: ModelProfile, depth: number): string[] {
  const [model] = modules;
  if (model === undefined) return [];
  const shown = modules.filter((module) => depth < 0 || depthOf(module) <= depth);
  return shown.flatMap((module, index) => {
    const own = depthOf(module);
    const next = shown[index + 1];
    const opens = next !== undefined && depthOf(next) > own;
    const indent = '  '.repeat(own);
    const name = own === 0 ? '' : `(${module.path.split('.').at(-1)}): `;
    const figures = figuresOf(module, model);
    const line = `${indent}${name}${module.type}(${opens ? `\n${indent}  ${figures}` : figures}`;
    if (opens) return [line];
    const settings = module.description.slice(module.type.length + 1, -1);
    const closed =
      settings === '' || settings.includes('\n') ? `${line})` : `${line}, ${settings})`;
    const closes = own - (next === undefined ? 0 : depthOf(next));
    return [closed, ...Array.from({ length: closes }, (_, up) => `${'  '.repeat(own - 1 - up)})`)];
  });
}

function figuresOf(module: ModuleProfile, model: ModuleProfile): string {
  const { params, work, forwardMs } = module;
  const { flops, macs } = work.forward;
  return [
    `${scaled(params, '')} = ${share(params, model.params)} Params`,
    `${scaled(macs, 'MACs')} = ${share(macs, model.work.forward.macs)} MACs`,
    ...(forwardMs === undefined
      ? [`${scaled(flops, 'FLOPs')} = ${share(flops, model.work.forward.flops)} FLOPs`]
      : [
          `${formatTime(forwardMs)} = ${share(forwardMs, model.forwardMs ?? 0)} latency`,
          speed(flops, forwardMs),
        ]),
  ].join(', ');
}

function depthOf({ path }: ModuleProfile): number {
  return path === '' ? 0 : path.split('.').length;
}

function share(part: number, whole: number): string {
  return whole === 0 ? '0%' : `${Number(((100 * part) / whole).toFixed(2))}%`;
}

function speed(flops: number, ms: number): string {
  return ms === 0 ? '0 FLOPS' : scaled((flops / ms) * 1000, 'FLOPS');
}

function formatTime(ms: number): string {
  if (ms >= 1000) return `${Number((ms / 1000).toFixed(2))} s`;
  return ms >= 1 ? `${Number(ms.toFixed(2))} ms` : `${Number((ms * 1000).toFixed(2))} us`;
}

/** Formats 866076672 as 866.08 M, followed by the unit. Steps are of 1000, with 2 decimals. */
function scaled(count: number, unit: string): string {
  const prefixes = ['', 'K', 'M', 'G', 'T', 'P', 'E'];
  let power = 0;
  while (count / 1000 ** power >= 1000 && power < prefixes.length - 1) power++;
  return `${Number((count / 1000 ** power).toFixed(2))} ${prefixes[power] ?? ''}${unit}`.trimEnd();
}
