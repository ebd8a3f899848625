import {
  DIRECT_PIECE_BYTES,
  type DirectEvents,
  type DirectLink,
  MAX_OPENING_MS,
  MAX_SIGNAL_LENGTH,
} from '../protocol/direct-link.ts';

/** The bytes that a channel gets before it has sent them. */
const MAX_CHANNEL_BYTES: number = 16 * DIRECT_PIECE_BYTES;
/** A piece with its header. */
const MAX_MESSAGE_BYTES: number = DIRECT_PIECE_BYTES + 1024;

/** A text of one end for the other. */
type Signal =
  | { readonly description: RTCSessionDescriptionInit }
  | { readonly candidate: RTCIceCandidateInit };

/**
 * Connects by WebRTC. Pages have it, and their workers and Node do not. `stun` are addresses of servers that tell an end its
 * public address.
 */
export function connectPeers(
  stun: readonly string[],
  begins: boolean,
  events: DirectEvents,
): DirectLink {
  const iceServers = stun.length === 0 ? [] : [{ urls: [...stun] }];
  const connection = new RTCPeerConnection({ iceServers });
  // Both ends name the channel, so that neither waits for the other to make it.
  const channel = connection.createDataChannel('shardwise', { negotiated: true, id: 0 });
  channel.binaryType = 'arraybuffer';
  channel.bufferedAmountLowThreshold = MAX_CHANNEL_BYTES / 2;
  const unsent: Uint8Array<ArrayBuffer>[] = [];
  let unsentBytes = 0;
  let isClosed = false;
  const end = (): void => {
    if (isClosed) return;
    isClosed = true;
    clearTimeout(timer);
    unsent.length = 0;
    connection.close();
    events.closed();
  };
  const timer = setTimeout(end, MAX_OPENING_MS);
  const tell = (signal: Signal): void => {
    const text = JSON.stringify(signal);
    if (!isClosed && text.length <= MAX_SIGNAL_LENGTH) events.signal(text);
  };
  const pump = (): void => {
    while (channel.readyState === 'open' && channel.bufferedAmount < MAX_CHANNEL_BYTES) {
      const next = unsent.shift();
      if (next === undefined) return;
      unsentBytes -= next.byteLength;
      channel.send(next);
    }
  };
  // A description is set before the candidates that came after it.
  let steps = Promise.resolve();
  const queue = (step: () => Promise<void>): void => {
    steps = steps.then(step).catch(end);
  };
  const offer = async (): Promise<void> => {
    await connection.setLocalDescription();
    if (connection.localDescription !== null) tell({ description: connection.localDescription });
  };
  connection.addEventListener('icecandidate', ({ candidate }) => {
    if (candidate !== null) tell({ candidate: candidate.toJSON() });
  });
  connection.addEventListener('connectionstatechange', () => {
    if (connection.connectionState === 'failed' || connection.connectionState === 'closed') end();
  });
  channel.addEventListener('open', () => {
    clearTimeout(timer);
    events.opened();
  });
  channel.addEventListener('close', end);
  channel.addEventListener('bufferedamountlow', pump);
  channel.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    if (!(data instanceof ArrayBuffer) || data.byteLength > MAX_MESSAGE_BYTES) end();
    else events.receive(new Uint8Array(data));
  });
  if (begins) queue(offer);
  return {
    signal(text) {
      const signal = parseSignal(text);
      if (signal === null) return end();
      queue(async () => {
        if ('candidate' in signal) return connection.addIceCandidate(signal.candidate);
        await connection.setRemoteDescription(signal.description);
        if (!begins) await offer();
      });
      return undefined;
    },
    send(bytes) {
      if (isClosed) return;
      unsent.push(bytes.slice());
      unsentBytes += bytes.byteLength;
      pump();
    },
    get bufferedBytes() {
      return unsentBytes + channel.bufferedAmount;
    },
    close: end,
  };
}

/** Reads a text of the other end, which may be a stranger's. The browser checks what is in it. */
function parseSignal(text: string): Signal | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  if ('description' in value && isDescription(value.description)) {
    return { description: value.description };
  }
  if (!('candidate' in value)) return null;
  const { candidate } = value;
  return typeof candidate === 'object' && candidate !== null ? { candidate } : null;
}

function isDescription(value: unknown): value is RTCSessionDescriptionInit {
  if (typeof value !== 'object' || value === null || !('type' in value) || !('sdp' in value)) {
    return false;
  }
  return (value.type === 'offer' || value.type === 'answer') && typeof value.sdp === 'string';
}
