-- Requests of wrk, and more percentiles than wrk prints by itself, in microseconds.
--
--     wrk -s bench/load.lua URL                          the URL
--     wrk -s bench/load.lua URL -- pipelined 16          the URL, 16 requests at once
--     wrk -s bench/load.lua URL -- rotating FILE         the targets of FILE, one per line, in order
--     wrk -s bench/load.lua URL -- random FILE           the targets of FILE, at random
--
-- All requests are formatted in advance: during the run, the script only selects a string.

local function formatted(file)
   local requests = {}
   for target in io.lines(file) do
      requests[#requests + 1] = wrk.format(nil, target)
   end
   return requests
end

local started = 0

-- Each thread has a number, so threads don't all request the same target at the same time.
function setup(thread)
   thread:set("number", started)
   started = started + 1
end

function init(args)
   local kind = args[1]
   if kind == "pipelined" then
      local all = string.rep(wrk.format(), tonumber(args[2]))
      request = function() return all end
   elseif kind == "rotating" then
      local requests = formatted(args[2])
      local last = number * 7
      request = function()
         last = last + 1
         return requests[last % #requests + 1]
      end
   elseif kind == "random" then
      local requests = formatted(args[2])
      math.randomseed(number + 1)
      request = function() return requests[math.random(#requests)] end
   end
end

function done(summary, latency, requests)
   for _, percent in ipairs({ 50, 75, 90, 99, 99.9, 99.99 }) do
      io.write(string.format("waited %g%% %d us\n", percent, latency:percentile(percent)))
   end
   io.write(string.format("waited 100%% %d us\n", latency.max))
   io.write(string.format("received %d bytes\n", summary.bytes))
end
