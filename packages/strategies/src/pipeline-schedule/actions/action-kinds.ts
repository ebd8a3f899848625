import type { Action, StageAction, StageKind, TransferAction, TransferKind } from './action.ts';

/** For each kind of message, the kind that the message has at its other end. */
const otherKind: Readonly<Record<TransferKind, TransferKind>> = {
  sendActivation: 'receiveActivation',
  receiveActivation: 'sendActivation',
  sendGradient: 'receiveGradient',
  receiveGradient: 'sendGradient',
};

const stageKinds: ReadonlySet<string> = new Set([
  'unshard',
  'reshard',
  'reduceGradient',
] satisfies StageKind[]);

export function isTransferKind(kind: Action['kind']): kind is TransferKind {
  return Object.hasOwn(otherKind, kind);
}

export function isTransfer(action: Action): action is TransferAction {
  return isTransferKind(action.kind);
}

export function isStageKind(kind: Action['kind']): kind is StageKind {
  return stageKinds.has(kind);
}

export function isStageAction(action: Action): action is StageAction {
  return isStageKind(action.kind);
}

export function isSend(kind: Action['kind']): boolean {
  return kind === 'sendActivation' || kind === 'sendGradient';
}

export function isReceive(kind: Action['kind']): boolean {
  return kind === 'receiveActivation' || kind === 'receiveGradient';
}

/** Returns the same message as the rank at its other end sees it. */
export function otherEnd({ kind, stage, peer, microbatch }: TransferAction): TransferAction {
  return { kind: otherKind[kind], stage: peer, peer: stage, microbatch };
}
