import { isSend, isStageKind, isTransferKind } from './action-kinds.ts';
import type { Action, ComputeAction, ComputeKind, StageKind, TransferKind } from './action.ts';
import { computationsOf } from './schedule.ts';

/** The letter of each kind of computation. */
export const computeLetters: Readonly<Record<ComputeKind, string>> = {
  forward: 'F',
  backward: 'B',
  inputGradient: 'I',
  weightGradient: 'W',
};
const transferWords: Readonly<Record<TransferKind, string>> = {
  sendActivation: 'SEND_F',
  receiveActivation: 'RECV_F',
  sendGradient: 'SEND_B',
  receiveGradient: 'RECV_B',
};
const stageWords: Readonly<Record<StageKind, string>> = {
  unshard: 'UNSHARD',
  reshard: 'RESHARD',
  reduceGradient: 'REDUCE_GRAD',
};

/**
 * Writes an action in PyTorch's notation: `2F0` (stage, kind, microbatch), `1SEND_F0`, `0UNSHARD`,
 * `(0F7;7B3)OVERLAP_F_B`. A message that skips stages names its other end: `1SEND_F0>4`, `4RECV_F0<1`.
 */
export function formatAction(action: Action): string {
  switch (action.kind) {
    case 'overlap':
      return `(${action.actions.map(formatAction).join(';')})OVERLAP_F_B`;
    case 'forward':
    case 'backward':
    case 'inputGradient':
    case 'weightGradient':
      return `${action.stage}${computeLetters[action.kind]}${action.microbatch}`;
    case 'unshard':
    case 'reshard':
    case 'reduceGradient':
      return `${action.stage}${stageWords[action.kind]}`;
    default: {
      const text = `${action.stage}${transferWords[action.kind]}${action.microbatch}`;
      if (action.peer === neighbour(action.kind, action.stage)) return text;
      return `${text}${isSend(action.kind) ? '>' : '<'}${action.peer}`;
    }
  }
}

/** The kind of an action, by its word. */
const kindOfWord: ReadonlyMap<string, ComputeKind | TransferKind | StageKind> = new Map([
  ...entriesOf(computeLetters),
  ...entriesOf(transferWords),
  ...entriesOf(stageWords),
]);

const single = /^(\d{1,6})([A-Z_]{1,16})(\d{1,6})?(?:([<>])(\d{1,6}))?$/;
const pair = /^\(([^;()]{1,40});([^;()]{1,40})\)OVERLAP_F_B$/;

/**
 * Parses the text that `formatAction` writes. Spaces around it are allowed. Returns the problem if the text is not an
 * action.
 */
export function parseAction(text: string): Action | { readonly problem: string } {
  const trimmed = text.trim();
  const [, first, second] = pair.exec(trimmed) ?? [];
  if (first !== undefined && second !== undefined) return parsePair(first, second);
  const [, stageText, word = '', microbatchText, arrow, peerText] = single.exec(trimmed) ?? [];
  if (stageText === undefined)
    return { problem: 'not of the form 2F0, 0UNSHARD or (0F7;7B3)OVERLAP_F_B' };
  const kind = kindOfWord.get(word);
  if (kind === undefined)
    return { problem: `no action ${word}: there are ${[...kindOfWord.keys()].join(', ')}` };
  const stage = Number(stageText);
  if (isStageKind(kind)) {
    if (microbatchText !== undefined || arrow !== undefined)
      return { problem: `a microbatch, which ${word} has not` };
    return { kind, stage };
  }
  if (microbatchText === undefined) return { problem: `no microbatch behind ${word}` };
  const microbatch = Number(microbatchText);
  if (isTransferKind(kind)) {
    if (arrow !== undefined && (arrow === '>') !== isSend(kind)) {
      return { problem: `the wrong arrow: ${word} has ${isSend(kind) ? '>' : '<'}` };
    }
    const peer = peerText === undefined ? neighbour(kind, stage) : Number(peerText);
    return { kind, stage, peer, microbatch };
  }
  if (arrow !== undefined) return { problem: `another stage, which ${word} has not` };
  return { kind, stage, microbatch };
}

function parsePair(first: string, second: string): Action | { readonly problem: string } {
  const actions: ComputeAction[] = [];
  for (const text of [first, second]) {
    const action = parseAction(text);
    if ('problem' in action) return action;
    if (action.kind === 'overlap') return { problem: 'a pair inside of a pair' };
    const [computation] = computationsOf(action);
    if (computation === undefined)
      return { problem: `${text.trim()}, which is no computation, in a pair` };
    actions.push(computation);
  }
  const [forward, backward] = actions;
  return forward === undefined || backward === undefined
    ? { problem: 'a pair of one' }
    : { kind: 'overlap', actions: [forward, backward] };
}

/** Returns the other end of a message that names none: the neighbouring stage. */
function neighbour(kind: TransferKind, stage: number): number {
  return kind === 'sendActivation' || kind === 'receiveGradient' ? stage + 1 : stage - 1;
}

function entriesOf<Kind extends string>(words: Readonly<Record<Kind, string>>): [string, Kind][] {
  return (Object.keys(words) as Kind[]).map((kind) => [words[kind], kind]);
}
