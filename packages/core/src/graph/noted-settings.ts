import { hashOf, mixed } from '../hash.ts';
import type { StepSettings } from '../spec/process-group.ts';

/** The value of a setting that ranks compare. */
export type SettingValue = number | boolean | string | readonly number[];

/** The settings of one group of parameters, by name. */
export type GroupSettings = ReadonlyMap<string, SettingValue>;

/** The settings of a call that changes parameters or gradients. */
export interface NotedSettings {
  /** The call, such as `AdamW.step()`. */
  readonly call: string;
  /** The settings of each group of parameters. */
  readonly groups: readonly GroupSettings[];
}

/** What ranks of one axis of the mesh have in common: the settings of their steps. */
export interface AxisSettings {
  /** The steps so far. Null before the first one. */
  made: StepsMade | null;
  /** What calls before the next step were told, such as `clipGradNorm`. */
  next: NotedSettings[];
}

/** The settings of the steps that a rank has made. Each step makes another object. */
export class StepsMade implements StepSettings {
  readonly steps: number;
  readonly hash: number;
  readonly #last: readonly NotedSettings[];

  constructor(before: StepsMade | null, last: readonly NotedSettings[]) {
    this.steps = (before?.steps ?? 0) + 1;
    this.hash = last.reduce(withSettings, before?.hash ?? 0) >>> 0;
    this.#last = last;
  }

  describe(): string {
    return this.#last.map(textOf).join('; ');
  }
}

function textOf({ call, groups }: NotedSettings): string {
  const names = new Set(groups.flatMap((group) => [...group.keys()]));
  const settings = [...names].map((name) => {
    const values = groups.map((group) => valueText(group.get(name)));
    const isOne = values.every((value) => value === values[0]);
    return `${name} ${isOne ? values[0] : values.join(' / ')}`;
  });
  return `${call}: ${settings.join('; ')}`;
}

function valueText(value: SettingValue | undefined): string {
  if (value === undefined) return 'not set';
  return typeof value === 'object' ? `[${value.join(', ')}]` : String(value);
}

const float = new Float64Array(1);
const words = new Int32Array(float.buffer);

function withSettings(hash: number, { call, groups }: NotedSettings): number {
  let all = mixed(mixed(hash, hashOfText(call)), groups.length);
  for (const group of groups) {
    for (const [name, value] of group) {
      all = mixed(all, hashOfText(name));
      if (typeof value === 'object') all = value.reduce(withNumber, mixed(all, value.length));
      else if (typeof value === 'string') all = mixed(all, hashOfText(value));
      else all = withNumber(all, Number(value));
    }
  }
  return all;
}

function withNumber(hash: number, value: number): number {
  float[0] = value;
  return mixed(mixed(hash, words[0] ?? 0), words[1] ?? 0);
}

const hashes = new Map<string, number>();
const MAX_HASHES = 1000;

function hashOfText(text: string): number {
  const known = hashes.get(text);
  if (known !== undefined) return known;
  if (hashes.size >= MAX_HASHES) hashes.clear();
  const hash = hashOf(text);
  hashes.set(text, hash);
  return hash;
}
