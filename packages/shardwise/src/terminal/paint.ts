/** The colours of the live block. */
export type Colour = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan';

export type Paint = (text: string, colour: Colour) => string;

const codes = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
} as const satisfies Record<Colour, readonly [number, number]>;

export const coloured: Paint = (text, colour) => {
  const [on, off] = codes[colour];
  return text === '' ? '' : `\u001B[${on}m${text}\u001B[${off}m`;
};

export const uncoloured: Paint = (text) => text;

/** The paint of a stream: none if it is no terminal, or one that is to have no colours. */
export function paintOf({ isTTY }: Pick<NodeJS.WriteStream, 'isTTY'>): Paint {
  const { NO_COLOR: noColour, TERM: terminal } = process.env;
  return isTTY && !noColour && terminal !== 'dumb' ? coloured : uncoloured;
}
