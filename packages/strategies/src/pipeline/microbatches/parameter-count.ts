/**
 * Counts the parameters of a function by its source, `String(body)`. Unlike `length` this includes parameters with
 * defaults. Returns Infinity for a rest parameter, and null if the source does not show the parameters, as for a bound
 * function.
 */
export function parameterCount(source: string): number | null {
  if (/\{\s*\[native code\]\s*\}$/.test(source)) return null;
  if (/^(?:async\s+)?[\p{ID_Start}$_][\p{ID_Continue}$]*\s*=>/u.test(source)) return 1;
  const list = parameterList(source);
  if (list === null) return null;
  return list.some((text) => text.startsWith('...')) ? Number.POSITIVE_INFINITY : list.length;
}

/** Returns the source of each parameter, without comments. Null if the list does not end. */
function parameterList(source: string): readonly string[] | null {
  const found: string[] = [];
  let [depth, text] = [0, ''];
  for (const [token] of source.slice(source.indexOf('(') + 1).matchAll(tokens)) {
    const isEnd = depth === 0 && token === ')';
    if (isEnd || (depth === 0 && token === ',')) {
      if (text.trim() !== '') found.push(text.trim());
      text = '';
      if (isEnd) return found;
      continue;
    }
    if ('([{'.includes(token)) depth += 1;
    else if (')]}'.includes(token)) depth -= 1;
    if (!token.startsWith('//') && !token.startsWith('/*')) text += token;
  }
  return null;
}

/** Matches a comment or a string as one token, because brackets and commas in it do not count. */
const tokens =
  /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\[^]|[^'\\])*'|"(?:\\[^]|[^"\\])*"|`(?:\\[^]|[^`\\])*`|[^]/g;
