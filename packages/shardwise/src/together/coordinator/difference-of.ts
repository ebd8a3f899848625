import type { Enter } from '../protocol/messages.ts';

/** Says in what a member's run differs from that of the others, or returns null. */
export function differenceOf(run: Enter, own: Enter): string | null {
  if (own.model !== run.model) return 'a model with other names or shapes of parameters';
  if (own.settings !== run.settings) {
    return `the settings ${own.settings}, and those of the run are ${run.settings}`;
  }
  const isSame =
    own.stateBytes === run.stateBytes &&
    own.messageBytes.length === run.messageBytes.length &&
    own.messageBytes.every((each, at) => each === run.messageBytes[at]);
  return isSame ? null : 'messages of other lengths';
}
