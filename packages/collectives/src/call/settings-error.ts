import { type CollectiveError, CollectiveMismatchError } from '@shardwise/core/spec';
import type { CallLabel } from './aborted-error.ts';
import { listRanks, sidesOf } from './failure.ts';
import type { SettingsMismatch } from './record-codec.ts';

/** One setting of the text that `StepSettings.describe` returns. */
interface Setting {
  /** The call that was told the setting, such as `AdamW.step()`. */
  readonly call: string;
  readonly name: string;
  /** Its value in each group of parameters, or one value for all groups. */
  readonly values: readonly string[];
}

/** What differs between the texts of two ranks, and how to read it from the text of any rank. */
interface Difference {
  readonly call: string;
  readonly what: string;
  readonly read: (settings: readonly Setting[]) => string;
}

/**
 * The error for ranks whose optimizer steps had different settings. It names the first setting that differs. `texts` has
 * what each rank says of its last step.
 */
export function settingsError(
  label: CallLabel,
  { pair, ranks, of }: SettingsMismatch,
  texts: readonly string[],
): CollectiveError {
  const settings = texts.map(settingsIn);
  const [first, second] = pair;
  const difference = differenceOf(settings[first] ?? [], settings[second] ?? []);
  const told = ranks.filter((rank) => (settings[rank] ?? []).length > 0);
  const values = told.map((rank) => difference?.read(settings[rank] ?? []) ?? '');
  const sides = sidesOf(values).map(
    ({ ranks: places, call: value }) =>
      `${value} on ${listRanks(places.map((at) => told[at] ?? 0))}`,
  );
  const isLate = of === 'stepsBefore';
  const found =
    difference === null
      ? `steps of optimizers had different settings on ${listRanks(pair)}`
      : `${difference.what} is ${sides.join(' and ')}`;
  return new CollectiveMismatchError(
    {
      asked: difference?.call ?? `${label.operation} #${label.sequence}`,
      found: isLate && difference !== null ? `${found}, in a step that was made already` : found,
      todo: `Give all ranks the same settings, and have all of them step their schedulers alike${isLate ? '. Start again from a checkpoint' : ''}`,
    },
    { ...label, ranks: pair, ...(difference !== null && { setting: difference.what, values }) },
  );
}

function settingsIn(text: string): readonly Setting[] {
  const settings: Setting[] = [];
  let call = '';
  for (const entry of text === '' ? [] : text.split('; ')) {
    const end = entry.indexOf(': ');
    if (end >= 0) call = entry.slice(0, end);
    const setting = end < 0 ? entry : entry.slice(end + 2);
    const space = setting.indexOf(' ');
    const values = setting.slice(space + 1).split(' / ');
    settings.push({ call, name: space < 0 ? setting : setting.slice(0, space), values });
  }
  return settings;
}

function differenceOf(mine: readonly Setting[], theirs: readonly Setting[]): Difference | null {
  for (let index = 0; index < Math.max(mine.length, theirs.length); index++) {
    const [own, other] = [mine[index], theirs[index]];
    if (own?.call !== other?.call || own?.name !== other?.name) {
      const isCall = own?.call !== other?.call;
      const read = (all: readonly Setting[]): string => {
        const setting = all[index];
        return (isCall ? setting?.call : setting?.name) ?? 'nothing';
      };
      const call = (isCall ? undefined : own?.call) ?? 'A step of an optimizer';
      return { call, what: isCall ? 'what it calls' : 'a setting', read };
    }
    if (own === undefined || other === undefined) return null;
    const { call, name } = own;
    const readAll = (all: readonly Setting[]): string =>
      all[index]?.values.join(' / ') ?? 'not known';
    if (own.values.length !== other.values.length) return { call, what: name, read: readAll };
    const group = own.values.findIndex((value, at) => value !== other.values[at]);
    if (group < 0) continue;
    if (own.values.length === 1) return { call, what: name, read: readAll };
    return {
      call,
      what: `${name} of parameter group ${group}`,
      read: (all) => all[index]?.values[group] ?? readAll(all),
    };
  }
  return null;
}
